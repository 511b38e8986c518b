//! The calls that run, and how a shutdown waits for them.

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
    caller::OwnerId,
    engine::{
        call::ProtectedCall,
        shared::{
            shutdown::{Shutdown, Stage, UnfinishedCall},
            watchers::{Watcher, Watchers},
        },
    },
    key::KeyId,
    policy::Mode,
};

/// The calls of one layer that run.
#[derive(Default)]
pub(crate) struct CallTracker {
    tasks: TaskTracker,
    shutting_down: CancellationToken,
    calls: Arc<Calls>,
    next: AtomicU64,
}

#[derive(Default)]
struct Calls {
    by_number: Mutex<ByNumber>,
    /// Told when one of them ends.
    watchers: Arc<Watchers>,
}

/// The stage of each call, and since when.
type ByNumber = HashMap<u64, (Arc<ProtectedCall>, Stage, Instant)>;

impl CallTracker {
    /// The tasks that a shutdown waits for.
    pub(in crate::engine) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Cancelled when the layer accepts no more calls.
    pub(crate) fn shutting_down(&self) -> &CancellationToken {
        &self.shutting_down
    }

    /// Tracks a call that asks for its key, until the result is dropped.
    pub(in crate::engine) fn claiming(&self, call: &Arc<ProtectedCall>) -> TrackedCall {
        self.track(call, Stage::Claiming)
    }

    /// Tracks a call whose outcome is being recorded, until the result is dropped.
    pub(in crate::engine) fn recording(&self, call: &Arc<ProtectedCall>) -> TrackedCall {
        self.track(call, Stage::Recording)
    }

    /// Watches for the end of calls with a key, until the result is dropped.
    pub(crate) fn watch(&self, owner: OwnerId, key: KeyId) -> Watcher {
        self.calls.watchers.watch(owner, key)
    }

    /// Returns the path of the procedure whose handler runs with this key, or whose outcome is being recorded.
    pub(crate) fn procedure_of(&self, owner: OwnerId, key: KeyId) -> Option<String> {
        let calls = lock(&self.calls);
        let (call, ..) = calls.values().find(|(call, stage, _)| {
            (call.reservation.owner, call.reservation.key) == (owner, key) && *stage != Stage::Claiming
        })?;
        Some(call.procedure.path().to_owned())
    }

    /// Accepts no more calls, and waits at most `bound` for those that run.
    pub(crate) async fn shutdown(&self, bound: Duration) -> Shutdown {
        self.shutting_down.cancel();
        self.tasks.close();
        if tokio::time::timeout(bound, self.tasks.wait()).await.is_ok() {
            return Shutdown::default();
        }
        let calls = lock(&self.calls);
        let unfinished: Vec<_> =
            calls.values().map(|(call, stage, since)| UnfinishedCall::new(call, *stage, *since)).collect();
        let reserved = unfinished.iter().filter(|call| call.mode == Mode::Reserved).count();
        let transactional = unfinished.len() - reserved;
        if reserved > 0 {
            tracing::warn!(
                reserved,
                "the shutdown ended before some calls did; their keys stay reserved until their leases end"
            );
        }
        if transactional > 0 {
            tracing::warn!(transactional, "the shutdown ended before some calls did; their transactions leave nothing");
        }
        Shutdown { unfinished }
    }

    fn track(&self, call: &Arc<ProtectedCall>, stage: Stage) -> TrackedCall {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.calls).insert(id, (Arc::clone(call), stage, Instant::now()));
        TrackedCall { calls: Arc::clone(&self.calls), id }
    }
}

/// A call that is tracked until this is dropped.
pub(in crate::engine) struct TrackedCall {
    calls: Arc<Calls>,
    id: u64,
}

impl TrackedCall {
    pub(in crate::engine) fn set_stage(&self, next: Stage) {
        if let Some((_, stage, since)) = lock(&self.calls).get_mut(&self.id) {
            (*stage, *since) = (next, Instant::now());
        }
    }
}

impl Drop for TrackedCall {
    fn drop(&mut self) {
        let ended = lock(&self.calls).remove(&self.id);
        if let Some((call, ..)) = ended {
            self.calls.watchers.tell(call.reservation.owner, call.reservation.key);
        }
    }
}

/// Ignores poisoning: no operation leaves the map half changed.
fn lock(calls: &Calls) -> MutexGuard<'_, ByNumber> {
    calls.by_number.lock().unwrap_or_else(PoisonError::into_inner)
}
