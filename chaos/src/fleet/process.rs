//! A server process.

use std::{
    env,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    task::JoinHandle,
    time,
};

use super::Setting;
use crate::{
    error::Error,
    journal::{Journal, ServerId, UnprotectedRun},
    server::{Announcement, Instruction, REDIS_REPLICAS, REDIS_URLS, SEALS, Saying, UnprotectedCall},
    urls::{Redis, Urls},
};

/// The time in which a server must serve, or log why it cannot.
const START: Duration = Duration::from_secs(20);

/// The time in which a killed process must be gone.
const END: Duration = Duration::from_secs(10);

/// A server process. It is killed when this is dropped, and also when the harness ends: then its standard input ends.
/// If it is stopped at that time, POSIX sends it SIGHUP and wakes it, because nothing else is in its process group, which
/// is then orphaned.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    log: JoinHandle<()>,
    output: JoinHandle<()>,
    sayings: mpsc::UnboundedReceiver<Saying>,
}

impl Process {
    /// Starts this program as a server on a database, and waits until it serves.
    pub(crate) async fn start(server: ServerId, setting: &Setting, urls: &Urls) -> Result<(Self, Announcement), Error> {
        let (redis, replicas) = match &urls.redis {
            Some(Redis { replicas, urls }) => (urls.join(","), replicas.to_string()),
            None => (String::new(), String::new()),
        };
        let mut child = Command::new(env::current_exe()?)
            .arg("serve")
            .args(&setting.flags)
            .env("DATABASE_URL", &urls.database)
            .env("API_DATABASE_URL", urls.api.as_deref().unwrap_or_default())
            .env(REDIS_URLS, redis)
            .env(REDIS_REPLICAS, replicas)
            .env(SEALS, if setting.seals { "yes" } else { "" })
            // Servers with the plain statements and servers with only the functions share the table.
            .env("IDEMPOTENCY_TEST_COMMON_PATH", if server.slot % 2 == 1 { "off" } else { "on" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("the server has no standard input")?;
        let output = child.stdout.take().ok_or("the server has no standard output")?;
        let errors = child.stderr.take().ok_or("the server has no standard error")?;
        let log = tokio::spawn(log(server, errors, Arc::clone(&setting.journal)));
        let (said, sayings) = mpsc::unbounded_channel();
        let output = tokio::spawn(listen(server, output, Arc::clone(&setting.journal), said));
        let mut process = Self { child, input, log, output, sayings };
        match time::timeout(START, process.said()).await {
            Ok(Some(Saying::Ready(ready))) => Ok((process, ready)),
            Ok(Some(other)) => Err(format!("the server sent {other:?} before it was ready").into()),
            Ok(None) => Err("the server ended before it was ready".into()),
            Err(_) => Err(format!("the server was not ready within {START:?}").into()),
        }
    }

    /// The next message; `None` after the process has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no message is lost.
    pub(super) async fn said(&mut self) -> Option<Saying> {
        self.sayings.recv().await
    }

    /// Sends an instruction. Has no effect if the process has ended.
    pub(super) async fn tell(&mut self, instruction: Instruction) {
        let line = serde_json::to_string(&instruction).unwrap_or_default() + "\n";
        let _ = time::timeout(END, self.input.write_all(line.as_bytes())).await;
    }

    /// Sends a signal. Has no effect if the process has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let process = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(process) = process {
            // If the process has ended, its id stays reserved until it is waited for.
            let _ = kill_process(process, signal);
        }
    }

    /// Waits until the process has ended; kills it after `patience`.
    pub(crate) async fn ended(mut self, patience: Duration) -> Option<ExitStatus> {
        let ended = match time::timeout(patience, self.child.wait()).await {
            Ok(ended) => ended.ok(),
            Err(_) => {
                let _ = self.child.start_kill();
                time::timeout(END, self.child.wait()).await.ok()?.ok()
            }
        };
        // Waits for the rest of what it said.
        let _ = time::timeout(END, async { tokio::join!(&mut self.output, &mut self.log) }).await;
        ended
    }

    /// Asks the process to stop, as an operator does, and waits for that; kills it after `patience`.
    pub(crate) async fn stop(self, patience: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        self.ended(patience).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.log.abort();
        self.output.abort();
    }
}

/// Notes the runs of a server's handlers and the steps that it passes in the journal, and passes its other messages on.
async fn listen(
    server: ServerId,
    output: impl AsyncRead + Unpin,
    journal: Arc<Journal>,
    said: mpsc::UnboundedSender<Saying>,
) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match Saying::heard(&line) {
            Some(Ok(Saying::Unprotected(UnprotectedCall { key, cause, asked, ran }))) => {
                let (asked, ran) = (journal.at(asked), journal.at(ran));
                journal.entries().unprotected.push(UnprotectedRun { server, key, cause, asked, ran });
            }
            Some(Ok(Saying::Began { key, at })) => journal.run(server, key, journal.at(at)),
            Some(Ok(Saying::Ended { key, at })) => journal.run_ended(server, key, journal.at(at)),
            Some(Ok(Saying::Passed(step))) => {
                journal.entries().passed.insert(step);
            }
            Some(Ok(saying)) => {
                // Fails if the server is being ended, as the receiver is gone.
                let _ = said.send(saying);
            }
            // Another line, or a message that cannot be parsed.
            Some(Err(_)) | None => {}
        }
    }
}

/// Notes a server's log in the journal.
async fn log(server: ServerId, errors: impl AsyncRead + Unpin, journal: Arc<Journal>) {
    let mut lines = BufReader::new(errors).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        journal.line(server, line);
    }
}
