//! What runs, and how it is brought to an end.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    LeftBehind, Shutdown,
    engine::{call::Call, shutdown::Stage},
};

/// The calls of one layer.
#[derive(Default)]
pub(crate) struct Running {
    tasks: TaskTracker,
    stopping: CancellationToken,
    calls: Arc<Calls>,
    next: AtomicU64,
}

type Calls = Mutex<ByNumber>;

/// What each does, and since when.
type ByNumber = HashMap<u64, (Arc<Call>, Stage, Instant)>;

impl Running {
    /// The tasks that a shutdown waits for.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Cancelled when no call is to be accepted any more.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Notes that a call asks for its key, until dropped.
    pub(crate) fn claiming(&self, call: &Arc<Call>) -> Noted {
        self.note(call, Stage::Claiming)
    }

    /// Notes that a call's outcome is being recorded, until dropped.
    pub(crate) fn recording(&self, call: &Arc<Call>) -> Noted {
        self.note(call, Stage::Recording)
    }

    /// Accepts nothing any more, and waits for what runs.
    pub(crate) async fn shut_down(&self, bound: Duration) -> Shutdown {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(bound, self.tasks.wait()).await.is_ok() {
            return Shutdown { left: Vec::new() };
        }
        let left: Vec<_> =
            lock(&self.calls).values().map(|(call, stage, since)| LeftBehind::new(call, *stage, *since)).collect();
        if !left.is_empty() {
            tracing::warn!(left = left.len(), "calls still run; reserved keys stay so until their leases end");
        }
        Shutdown { left }
    }

    fn note(&self, call: &Arc<Call>, stage: Stage) -> Noted {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.calls).insert(id, (Arc::clone(call), stage, Instant::now()));
        Noted { calls: Arc::clone(&self.calls), id }
    }
}

/// A call that is noted while it runs.
pub(crate) struct Noted {
    calls: Arc<Calls>,
    id: u64,
}

impl Noted {
    /// Notes what the call does from now on.
    pub(crate) fn turn_to(&self, next: Stage) {
        if let Some((_, stage, since)) = lock(&self.calls).get_mut(&self.id) {
            (*stage, *since) = (next, Instant::now());
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        lock(&self.calls).remove(&self.id);
    }
}

/// No operation leaves the map half changed, so one that panicked does not matter to the next.
fn lock(calls: &Calls) -> MutexGuard<'_, ByNumber> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
