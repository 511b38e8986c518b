use std::{
    env,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time,
};

use super::Setting;
use crate::{
    error::Error,
    journal::{Journal, ServerId},
    server::{Instruction, Ready, Saying},
};

/// How long a server may take to serve, or to say why it does not.
const START: Duration = Duration::from_secs(20);

/// How long a process that was killed may take to be gone.
const END: Duration = Duration::from_secs(10);

/// A server process. Killed when this is dropped, and also when the harness itself ends: its standard input ends then;
/// and if it is stopped, POSIX wakes it with a SIGHUP, because its process group, which it has for itself, is orphaned.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    log: JoinHandle<()>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this program as a server on a database, and waits until it serves.
    ///
    /// # Errors
    ///
    /// It ends, or takes too long. What it logged is in the journal.
    pub(crate) async fn start(server: ServerId, setting: &Setting, database_url: &str) -> Result<(Self, Ready), Error> {
        let mut child = Command::new(env::current_exe()?)
            .arg("serve")
            .args(&setting.flags)
            .env("DATABASE_URL", database_url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("the server has no standard input")?;
        let output = child.stdout.take().ok_or("the server has no standard output")?;
        let errors = child.stderr.take().ok_or("the server has no standard error")?;
        let log = tokio::spawn(log(server, errors, Arc::clone(&setting.journal), setting.verbose));
        let mut process = Self { child, input, log, output: BufReader::new(output).lines() };
        match time::timeout(START, process.said()).await {
            Ok(Some(Saying::Ready(ready))) => Ok((process, ready)),
            Ok(Some(other)) => Err(format!("the server said {other:?} before it served").into()),
            Ok(None) => Err("the server ended before it served".into()),
            Err(_) => Err(format!("the server did not serve within {START:?}").into()),
        }
    }

    /// What it says next; `None` once it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it has taken nothing away.
    pub(super) async fn said(&mut self) -> Option<Saying> {
        loop {
            // What cannot be read is not for us.
            let line = self.output.next_line().await.ok()??;
            if let Some(Ok(saying)) = Saying::heard(&line) {
                return Some(saying);
            }
        }
    }

    /// Tells it something. A process that has ended does not hear it.
    pub(super) async fn tell(&mut self, instruction: Instruction) {
        let line = format!("{instruction}\n");
        let _ = time::timeout(END, self.input.write_all(line.as_bytes())).await;
    }

    /// Sends it a signal. One that has ended gets none.
    pub(super) fn signal(&self, signal: Signal) {
        let process = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(process) = process {
            // It may have ended, and stays in the list of processes until we look.
            let _ = kill_process(process, signal);
        }
    }

    /// Waits until it has ended, and kills it after `patience`.
    pub(crate) async fn ended(mut self, patience: Duration) -> Option<ExitStatus> {
        let ended = match time::timeout(patience, self.child.wait()).await {
            Ok(ended) => ended.ok(),
            Err(_) => {
                let _ = self.child.start_kill();
                time::timeout(END, self.child.wait()).await.ok()?.ok()
            }
        };
        // What it said last.
        let _ = time::timeout(END, &mut self.log).await;
        ended
    }

    /// Asks it to stop, as an operator does, and waits for that; kills it after `patience`.
    pub(crate) async fn stop(self, patience: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        self.ended(patience).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.log.abort();
    }
}

/// Notes what a server logs, and shows it if that is wanted.
async fn log(server: ServerId, errors: impl AsyncRead + Unpin, journal: Arc<Journal>, verbose: bool) {
    let mut lines = BufReader::new(errors).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if verbose {
            #[expect(clippy::print_stderr, reason = "it was asked for")]
            {
                eprintln!("server {server}: {line}");
            }
        }
        journal.line(server, line);
    }
}
