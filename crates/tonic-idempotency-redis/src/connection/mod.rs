//! Connections to the server, or to the servers, that keep the records.

mod target;
mod topology;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redis::{Pipeline, ServerErrorKind, Value};
use tokio::sync::Mutex as AsyncMutex;

use self::topology::Connection;
pub(crate) use self::{
    target::{Primary, Target},
    topology::Topology,
};
use crate::error::{Failure, Fault};

/// The default number of connections to each server.
const DEFAULT_LINES: usize = 4;

/// Some connections to each server, each of which carries many operations at once. A connection is made when it is needed, and
/// discarded when it breaks, goes silent, or turns out to lead to a server that may no longer write.
pub(crate) struct Connections {
    topology: Topology,
    lines: Box<[Line]>,
    next: AtomicUsize,
}

#[derive(Default)]
struct Line {
    open: Mutex<Option<OpenConnection>>,
    /// Held by the task that connects.
    connecting: AsyncMutex<()>,
}

struct OpenConnection {
    connection: Connection,
    /// Tells this connection from later ones.
    generation: u64,
}

/// The number of connections that have been made.
static GENERATIONS: AtomicU64 = AtomicU64::new(0);

/// The moment at which something was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendMoment {
    /// The newest connection there was.
    newest: u64,
}

impl Connections {
    pub(crate) fn new(topology: Topology) -> Self {
        Self::with_lines(topology, DEFAULT_LINES)
    }

    fn with_lines(topology: Topology, lines: usize) -> Self {
        let lines = (0..lines).map(|_| Line::default()).collect();
        Self { topology, lines, next: AtomicUsize::new(0) }
    }

    /// Changes the number of connections. None is open afterwards.
    pub(crate) fn resized(this: Arc<Self>, lines: usize) -> Self {
        match Arc::try_unwrap(this) {
            Ok(Self { topology, .. }) => Self::with_lines(topology, lines),
            Err(shared) => Self::with_lines(shared.topology.clone(), lines),
        }
    }

    /// Sends commands, and returns their answers, which may be errors. Fills `sent` just before it sends them. Gives up on a new
    /// connection after `patience`.
    pub(crate) async fn send(
        &self,
        target: Target<'_>,
        commands: &Pipeline,
        patience: Duration,
        sent: &OnceLock<SendMoment>,
    ) -> Result<Vec<Value>, Failure> {
        let line = self.next.fetch_add(1, Ordering::Relaxed) % self.lines.len();
        let connection = self.lines[line].get(&self.topology, patience).await?;
        let _ = sent.set(SendMoment { newest: GENERATIONS.load(Ordering::Relaxed) });
        Box::pin(connection.send(target, commands)).await
    }

    /// Forgets all connections that existed when something was sent, so that the next operations open new ones: if one has failed, probably
    /// all have. Operations that wait for an answer go on.
    pub(crate) fn discard(&self, sent: SendMoment) {
        for line in &self.lines {
            let mut open = line.open();
            if open.as_ref().is_some_and(|open| open.generation <= sent.newest) {
                *open = None;
            }
        }
    }

    /// Returns all primaries.
    pub(crate) async fn primaries(&self, patience: Duration) -> Result<Vec<Primary>, Failure> {
        let connection = self.lines[0].get(&self.topology, patience).await?;
        Box::pin(connection.primaries()).await
    }
}

impl Line {
    async fn get(&self, topology: &Topology, patience: Duration) -> Result<Connection, Failure> {
        if let Some(open) = &*self.open() {
            return Ok(open.connection.clone());
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = &*self.open() {
            return Ok(open.connection.clone());
        }
        // Boxed: the client's futures are so deep that the compiler gives up on those around them.
        let connection = Box::pin(topology.connect(patience)).await.map_err(Failure::NotSent)?;
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed) + 1;
        *self.open() = Some(OpenConnection { connection: connection.clone(), generation });
        Ok(connection)
    }

    fn open(&self) -> MutexGuard<'_, Option<OpenConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the connection is of no further use after this failure.
pub(crate) fn is_spent(failure: &Failure) -> bool {
    match failure {
        Failure::Lost(_) | Failure::Silent => true,
        // A server that was a primary, or is none yet; and a cluster, whose client may not have heard of a failover.
        Failure::Answered(error) => {
            matches!(failure.fault(), Fault::Away | Fault::Replica) || error.kind() == Some(ServerErrorKind::Moved)
        }
        _ => false,
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}
