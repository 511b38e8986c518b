//! The process that outlives this one to remove a server.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task;

use crate::{CrashError, account::Account, memory};

/// A shell script that runs until its standard input ends, which happens when this process ends in any way, and then
/// removes what it supervises. It has its own process group, so that a terminal's Ctrl-C does not reach it.
///
/// Dropping this ends the script and waits for it.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    /// Closed on exec, so that no other child of this process keeps it open.
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Supervisor {
    /// Starts `script`, of `sh`, with `arguments`.
    ///
    /// # Errors
    ///
    /// There is no `sh`.
    pub fn start(script: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> io::Result<Self> {
        Self::spawn(script, arguments, None)
    }

    /// Starts `script` with `arguments`, as `account` or as the user of this process.
    pub(crate) fn spawn(
        script: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        account: Option<&Account>,
    ) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", script, "scratch-postgres"])
            .args(arguments)
            // The current directory may be inaccessible to the other user, or removed before the script ends.
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(account) = account {
            command.uid(account.uid).gid(account.gid);
        }
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        Ok(Self { child, input, output })
    }

    /// Sends the script one line.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.input {
            Some(input) => writeln!(input, "{line}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends the script one line, and waits for its answer; empty if it has ended. Blocks the thread.
    ///
    /// # Errors
    ///
    /// The script has ended.
    pub fn ask(&mut self, line: &str) -> io::Result<String> {
        self.tell(line)?;
        let mut answer = String::new();
        if let Some(output) = &mut self.output {
            output.read_line(&mut answer)?;
        }
        Ok(answer.trim_end().to_owned())
    }

    /// Whether the script has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the script, waits until it has removed everything, and returns its output. Blocks the thread.
    pub(crate) fn end(mut self) -> String {
        self.finish()
    }

    /// Returns the rest of the output if the script has ended by itself; `None` while it runs.
    pub(crate) fn last_words(&mut self) -> Option<String> {
        self.has_ended().then(|| self.finish())
    }

    fn finish(&mut self) -> String {
        drop(self.input.take());
        let mut said = Vec::new();
        if let Some(mut output) = self.output.take() {
            let _ = output.read_to_end(&mut said);
        }
        let _ = self.child.wait();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A supervisor that several tasks give orders to, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Ordered(Arc<Mutex<Supervisor>>);

impl Ordered {
    pub(crate) fn new(supervisor: Supervisor) -> Self {
        Self(Arc::new(Mutex::new(supervisor)))
    }

    /// Gives an order, and waits until it is done.
    pub(crate) async fn order(&self, order: impl Into<String>) -> Result<(), CrashError> {
        let (supervisor, order) = (self.clone(), order.into());
        let asked = task::spawn_blocking(move || supervisor.lock().ask(&order)).await;
        match asked.map_err(|error| CrashError(error.into()))?.map_err(|error| CrashError(error.into()))?.as_str() {
            "done" => Ok(()),
            "" => Err(CrashError("the script that supervises the servers has ended".into())),
            said => Err(CrashError(format!("the server refuses: {said}").into())),
        }
    }

    /// As [`Supervisor::has_ended`].
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended()
    }

    /// As [`Supervisor::last_words`]; `None` also while an order is under way, which finds out.
    pub(crate) fn last_words(&self) -> Option<String> {
        self.0.try_lock().ok()?.last_words()
    }

    /// As [`Supervisor::end`].
    pub(crate) async fn end(self) -> String {
        task::spawn_blocking(move || self.lock().finish()).await.unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Supervisor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directories in which a script may keep the files of its servers, and the end of their list. The temporary directory of this process may
/// be inaccessible to the other user.
pub(crate) fn places(in_memory: bool) -> impl Iterator<Item = OsString> {
    let memory = (in_memory && memory::has_room()).then(|| memory::DIRECTORY.into());
    memory.into_iter().chain([env::temp_dir().into(), "/tmp".into(), "/var/tmp".into(), "--".into()])
}
