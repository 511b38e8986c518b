//! Client libraries in other languages, each behind a driver program.

use std::{
    collections::HashMap,
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
    time::timeout,
};

use crate::{
    call::{Call, Reply},
    protocol::Protocol,
};

/// The time in which a driver must end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that makes calls with one or more client libraries. It reads one call per line and writes one reply per
/// line.
#[derive(Debug)]
pub(crate) struct Driver {
    /// Killed when this is dropped.
    child: AsyncMutex<Child>,
    /// `None` after the driver was told to end.
    input: AsyncMutex<Option<ChildStdin>>,
    next_id: AtomicU64,
    waiting: Arc<Mutex<Waiting>>,
}

/// The waiting callers by the ids of their calls; `None` after the driver has ended.
type Waiting = Option<HashMap<u64, oneshot::Sender<Result<Reply, String>>>>;

/// A line of input.
#[derive(Serialize)]
struct Line<'a> {
    id: u64,
    client: &'a str,
    protocol: &'a str,
    #[serde(flatten)]
    call: &'a Call,
}

/// A line of output.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Failure {
        id: u64,
        failure: String,
    },
    Reply {
        id: u64,
        #[serde(flatten)]
        reply: Reply,
    },
}

impl Driver {
    /// Starts the driver.
    ///
    /// # Panics
    ///
    /// The driver does not start.
    pub(crate) fn spawn(mut command: Command) -> Arc<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (input, output) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(read(output, Arc::clone(&waiting)));
        let (child, input) = (AsyncMutex::new(child), AsyncMutex::new(Some(input)));
        Arc::new(Self { child, input, next_id: AtomicU64::new(1), waiting })
    }

    /// Ends the driver, and waits until it has removed its files.
    pub(crate) async fn end(&self) {
        drop(self.input.lock().await.take());
        let mut child = self.child.lock().await;
        match timeout(PATIENCE, child.wait()).await {
            Ok(ended) => assert!(ended.as_ref().is_ok_and(ExitStatus::success), "the driver failed: {ended:?}"),
            Err(_) => panic!("the driver did not end when its input ended"),
        }
    }

    /// Makes a call with the library `client`.
    pub(crate) async fn call(&self, client: &str, protocol: Protocol, call: &Call) -> Result<Reply, String> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = Line { id, client, protocol: protocol.name(), call };
        let mut line = serde_json::to_vec(&line).map_err(|error| error.to_string())?;
        line.push(b'\n');

        let (sender, reply) = oneshot::channel();
        match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err("the driver has ended".to_owned()),
        };
        match &mut *self.input.lock().await {
            Some(input) => input.write_all(&line).await.map_err(|error| format!("the driver's input: {error}"))?,
            None => return Err("the driver was told to end".to_owned()),
        }
        reply.await.map_err(|_| "the driver ended before its reply".to_owned())?
    }
}

/// Delivers the replies, until the driver ends or writes something else.
async fn read(output: ChildStdout, waiting: Arc<Mutex<Waiting>>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (id, reply) = match serde_json::from_str(&line) {
            Ok(Answer::Failure { id, failure }) => (id, Err(failure)),
            Ok(Answer::Reply { id, reply }) => (id, Ok(reply)),
            Err(error) => {
                let said = format!("the driver wrote {line:?}: {error}");
                for sender in waiting.lock().unwrap_or_else(PoisonError::into_inner).take().into_iter().flatten() {
                    let _ = sender.1.send(Err(said.clone()));
                }
                return;
            }
        };
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.as_mut().and_then(|waiting| waiting.remove(&id)) {
            // The caller may have stopped waiting.
            let _ = sender.send(reply);
        }
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
}
