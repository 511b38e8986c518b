//! Identical calls of this process: one leads and runs, the others follow and get its response.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::SetOnce;

use crate::{
    caller::OwnerId,
    engine::{call::ProtectedCall, replays::recorded::Recorded},
    key::KeyId,
};

/// The leaders of this process, by owner, key, hash of the request, and path of the procedure. All know the same schema, so
/// that the canonical hash is enough.
#[derive(Default)]
pub(crate) struct SingleFlight {
    leaders: Mutex<HashMap<Id, Arc<Published>>>,
}

/// The record of a leader, once it has ended; `None` if it has published none. Shared, so that a leader without followers stays small.
type Published = SetOnce<Option<Arc<Recorded>>>;

type Id = (OwnerId, KeyId, [u8; 32], Arc<str>);

/// The role of a call among those that are identical to it.
pub(in crate::engine) enum Role {
    /// Runs, or finds out which process does.
    Leader(Arc<Leader>),
    /// Waits for the leader.
    Follower(Arc<Published>),
}

impl SingleFlight {
    pub(in crate::engine) fn join(self: &Arc<Self>, call: &ProtectedCall) -> Role {
        let canonical = *call.request_hashes.canonical().as_bytes();
        let id = (call.reservation.owner, call.reservation.key, canonical, call.procedure.shared_path());
        match self.lock().entry(id.clone()) {
            Entry::Occupied(entry) => Role::Follower(Arc::clone(entry.get())),
            Entry::Vacant(entry) => {
                let published = Arc::clone(entry.insert(Arc::default()));
                Role::Leader(Arc::new(Leader { single_flight: Arc::clone(self), id, published }))
            }
        }
    }

    /// Ignores poisoning: no operation leaves the map half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Arc<Published>>> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that others may follow. Dropped without a published record, it makes one of its followers the leader.
pub(in crate::engine) struct Leader {
    single_flight: Arc<SingleFlight>,
    id: Id,
    published: Arc<Published>,
}

impl Leader {
    /// Returns whether any call follows. The leader and the map hold the first two references.
    pub(in crate::engine) fn has_followers(&self) -> bool {
        Arc::strong_count(&self.published) > 2
    }

    /// Gives the followers their response.
    pub(in crate::engine) fn publish(&self, recorded: &Recorded) {
        if self.has_followers() {
            let _ = self.published.set(Some(Arc::new(recorded.clone())));
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.single_flight.lock().remove(&self.id);
        let _ = self.published.set(None);
    }
}
