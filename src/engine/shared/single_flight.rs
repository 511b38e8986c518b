//! Identical calls of this process: one leads and runs, the others follow and get its response.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{
    caller::OwnerId,
    engine::{call::Call, replay::recorded::Recorded},
    key::KeyId,
};

/// The leaders of this process, by owner, key, hash of the request, and path of the procedure. All know the same schema, so
/// that the canonical hash is enough.
#[derive(Default)]
pub(crate) struct SingleFlight {
    leaders: Mutex<HashMap<Id, watch::Receiver<Published>>>,
}

/// The record of a leader, once there is one. Shared, so that a leader without followers stays small.
type Published = Option<Arc<Recorded>>;

type Id = (OwnerId, KeyId, [u8; 32], Arc<str>);

/// The role of a call among those that are identical to it.
pub(in crate::engine) enum Role {
    /// Runs, or finds out which process does.
    Leader(Arc<Leader>),
    /// Waits for the leader.
    Follower(watch::Receiver<Published>),
}

impl SingleFlight {
    pub(in crate::engine) fn join(self: &Arc<Self>, call: &Call) -> Role {
        let canonical = *call.request_hashes.canonical().as_bytes();
        let id = (call.reservation.owner, call.reservation.key, canonical, call.procedure.shared_path());
        match self.lock().entry(id.clone()) {
            Entry::Occupied(entry) => Role::Follower(entry.get().clone()),
            Entry::Vacant(entry) => {
                let (sender, receiver) = watch::channel(None);
                entry.insert(receiver);
                Role::Leader(Arc::new(Leader { single_flight: Arc::clone(self), id, sender }))
            }
        }
    }

    /// Ignores poisoning: no operation leaves the map half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, watch::Receiver<Published>>> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that others may follow. Dropped without a published record, it makes one of its followers the leader.
pub(in crate::engine) struct Leader {
    single_flight: Arc<SingleFlight>,
    id: Id,
    sender: watch::Sender<Published>,
}

impl Leader {
    /// Returns whether any call follows. The map itself holds one receiver.
    pub(in crate::engine) fn has_followers(&self) -> bool {
        self.sender.receiver_count() > 1
    }

    /// Gives the followers their response.
    pub(in crate::engine) fn publish(&self, recorded: &Recorded) {
        if self.has_followers() {
            self.sender.send_replace(Some(Arc::new(recorded.clone())));
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.single_flight.lock().remove(&self.id);
    }
}
