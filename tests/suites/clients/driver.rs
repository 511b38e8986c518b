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

/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that makes calls with one or more client libraries: it reads a call per line, and writes a reply per line.
#[derive(Debug)]
pub(crate) struct Driver {
    /// Killed with this value.
    child: AsyncMutex<Child>,
    /// `None` once it is to end.
    input: AsyncMutex<Option<ChildStdin>>,
    next_id: AtomicU64,
    waiting: Arc<Mutex<Waiting>>,
}

/// Who waits for which reply; `None` once the driver has ended.
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
    /// Starts it.
    ///
    /// # Panics
    ///
    /// It does not start.
    pub(crate) fn spawn(mut command: Command) -> Arc<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (input, output) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(read(output, Arc::clone(&waiting)));
        let (child, input) = (AsyncMutex::new(child), AsyncMutex::new(Some(input)));
        Arc::new(Self { child, input, next_id: AtomicU64::new(1), waiting })
    }

    /// Ends it, and waits until it has removed what it made.
    pub(crate) async fn end(&self) {
        drop(self.input.lock().await.take());
        let mut child = self.child.lock().await;
        match timeout(PATIENCE, child.wait()).await {
            Ok(ended) => assert!(ended.as_ref().is_ok_and(ExitStatus::success), "the driver failed: {ended:?}"),
            Err(_) => panic!("the driver does not end when its input does"),
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
            None => return Err("the driver is ended".to_owned()),
        }
        reply.await.map_err(|_| "the driver ended before its reply".to_owned())?
    }
}

/// Hands out the replies, until the driver ends or says something else.
async fn read(output: ChildStdout, waiting: Arc<Mutex<Waiting>>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (id, reply) = match serde_json::from_str(&line) {
            Ok(Answer::Failure { id, failure }) => (id, Err(failure)),
            Ok(Answer::Reply { id, reply }) => (id, Ok(reply)),
            Err(_) => break,
        };
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.as_mut().and_then(|waiting| waiting.remove(&id)) {
            // Whoever asked may have given up.
            let _ = sender.send(reply);
        }
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
}
