//! Another process that owns a server, and the ways in which it can end.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use uuid::Uuid;

use crate::traces::wait_until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_scratch-postgres");

/// A way in which a process can end without stopping its server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// Normally, with the server in a `static`.
    Exits,
    /// `kill -9`.
    Killed,
    /// Ctrl-C in its terminal: SIGINT to its whole process group.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

pub(crate) const ENDINGS: [Ending; 4] = [Ending::Exits, Ending::Killed, Ending::Interrupted, Ending::Terminated];

/// The program `scratch-postgres` with a running server.
pub(crate) struct Owner {
    child: Child,
    input: Option<ChildStdin>,
    pub(crate) url: String,
}

impl Owner {
    /// Starts the program with a server from `source`.
    pub(crate) fn start(source: &str) -> Self {
        let mut command = interruptible(Path::new(PROGRAM));
        command.arg(source).process_group(0).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut url = String::new();
        output.read_line(&mut url).expect("a line");
        assert!(url.starts_with("postgres://"), "no server: {url:?}");
        Self { child, input, url: url.trim_end().to_owned() }
    }

    /// Ends the program, and waits until it has ended.
    pub(crate) fn end(mut self, ending: Ending) {
        let id = self.child.id();
        match ending {
            Ending::Exits => drop(self.input.take()),
            Ending::Killed => signal("KILL", &id.to_string()),
            Ending::Interrupted => signal("INT", &format!("-{id}")),
            Ending::Terminated => signal("TERM", &id.to_string()),
        }
        wait_until(&format!("it ends: {ending:?}"), || self.child.try_wait().expect("its state").is_some());
    }
}

/// A command whose program SIGINT and SIGTERM end, unless it handles them. A shell lets its background jobs ignore SIGINT, and the
/// processes that those start ignore it as well. The process id is that of the program. Only coreutils' `env` can do this.
fn interruptible(program: &Path) -> Command {
    if !cfg!(target_os = "linux") {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM").arg(program);
    command
}

fn signal(name: &str, target: &str) {
    let status = Command::new("kill").args(["-s", name, "--", target]).status().expect("there is kill");
    assert!(status.success(), "kill -s {name} {target}");
}

/// The place where a program is killed before its server is ready: a temporary directory of its own, which has to hold
/// everything that an installed server writes.
pub(crate) struct Scene {
    directory: PathBuf,
    source: &'static str,
}

impl Scene {
    pub(crate) fn new(source: &'static str) -> Self {
        let directory = std::env::temp_dir().join(format!("scene-{}", Uuid::new_v4().simple()));
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).expect("for everybody");
        Self { directory, source }
    }

    /// Starts the program without waiting for its server.
    pub(crate) fn start(&self) -> Child {
        Command::new(PROGRAM)
            .arg(self.source)
            .env("TMPDIR", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts")
    }

    pub(crate) fn kill(&self, mut child: Child) {
        child.kill().expect("it is still there");
        child.wait().expect("it ends");
    }

    /// Whether `path` exists in a server's directory.
    pub(crate) fn has(&self, path: &str) -> bool {
        fs::read_dir(&self.directory).into_iter().flatten().flatten().any(|entry| entry.path().join(path).exists())
    }

    /// A text in the arguments of every process that belongs to the server.
    pub(crate) fn mark(&self) -> &str {
        self.directory.to_str().expect("text")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
