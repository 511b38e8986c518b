//! The server, as a process that can be killed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_check-server");

pub(crate) struct Server {
    folder: TempDir,
    fault: Option<&'static str>,
    child: Child,
}

impl Server {
    pub(crate) fn start(fault: Option<&'static str>) -> Self {
        Self::start_with(fault, &[])
    }

    pub(crate) fn start_with(fault: Option<&'static str>, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(PROGRAM);
        command.arg("--folder").arg(folder.path()).args(more).stderr(Stdio::inherit());
        if let Some(fault) = fault {
            command.args(["--fault", fault]);
        }
        let child = command.spawn().expect("the server starts");
        let begun = Instant::now();
        while !folder.path().join("address").exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the server does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Self { folder, fault, child }
    }

    fn addresses(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("address")).expect("its addresses");
        text.lines().map(|address| format!("http://{address}")).collect()
    }

    pub(crate) fn url(&self) -> String {
        self.addresses().swap_remove(0)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The second server, with the same records.
    pub(crate) fn also(&self) -> String {
        self.addresses().swap_remove(1)
    }

    pub(crate) fn count(&self) -> String {
        format!(
            "cd '{}' && if [ -e $CHECK_UUID ]; then wc -l < $CHECK_UUID; else echo 0; fi",
            self.path("effects").display()
        )
    }

    pub(crate) fn restart(&self) -> String {
        let ports: Vec<_> =
            self.addresses().iter().filter_map(|url| Some(url.rsplit_once(':')?.1.to_owned())).collect();
        let fault = self.fault.map(|fault| format!("--fault {fault}")).unwrap_or_default();
        let quoted = |path: &Path| format!("'{}'", path.display());
        let (folder, address, pid) =
            (quoted(self.folder.path()), quoted(&self.path("address")), quoted(&self.path("pid")));
        format!(
            "kill -9 $(cat {pid}); rm {address}; {} \
             setsid '{PROGRAM}' --folder {folder} {fault} --ports {} </dev/null >/dev/null 2>&1 & \
             until [ -e {address} ]; do sleep 0.05; done",
            ports.iter().map(|port| is_free(port)).collect::<String>(),
            ports.join(" "),
        )
    }
}

/// A command that waits until a port is free: a process that was killed may have it for a moment.
fn is_free(port: &str) -> String {
    format!("bash -c 'while (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.02; done'; ")
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been started again since.
        if let Ok(pid) = fs::read_to_string(self.path("pid")) {
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
