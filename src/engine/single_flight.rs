//! Calls of this process that are run once for all who wait for them.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::{
    IdempotencyKey, UserId,
    engine::call::{Call, Recorded},
};

/// The calls in flight, by user, key, hash of the request, and path of the procedure.
pub(crate) struct Flights {
    flights: Mutex<HashMap<Id, watch::Receiver<Landed>>>,
    waiting: Semaphore,
}

/// What has become of a call, once it is recorded. Shared, so that a flight is small that nobody waits for.
type Landed = Option<Arc<Recorded>>;

type Id = (UserId, IdempotencyKey, [u8; 32], Arc<str>);

/// What a call is to the others that are the same.
pub(crate) enum Joined {
    /// It runs, or finds out who does.
    Leads(Arc<Flight>),
    /// It waits for another of this process.
    Follows(watch::Receiver<Landed>),
}

impl Flights {
    /// Flights for which at most so many calls wait.
    pub(crate) fn new(max_waiting: usize) -> Arc<Self> {
        let waiting = Semaphore::new(max_waiting.min(Semaphore::MAX_PERMITS));
        Arc::new(Self { flights: Mutex::default(), waiting })
    }

    pub(crate) fn join(self: &Arc<Self>, call: &Call) -> Joined {
        let id =
            (call.reservation.user, call.reservation.key, *call.request_hash.as_bytes(), call.procedure.shared_path());
        match self.lock().entry(id.clone()) {
            Entry::Occupied(entry) => Joined::Follows(entry.get().clone()),
            Entry::Vacant(entry) => {
                let (sender, receiver) = watch::channel(None);
                entry.insert(receiver);
                Joined::Leads(Arc::new(Flight { flights: Arc::clone(self), id, sender }))
            }
        }
    }

    /// A place among those who wait; `None` where all are taken.
    pub(crate) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.waiting.try_acquire().ok()
    }

    /// No operation leaves the map half changed, so one that panicked does not matter to the next.
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, watch::Receiver<Landed>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that others may wait for. Dropped without having landed, it leaves them to find out for themselves.
pub(crate) struct Flight {
    flights: Arc<Flights>,
    id: Id,
    sender: watch::Sender<Landed>,
}

impl Flight {
    /// Whether anybody waits. The map itself holds one receiver.
    pub(crate) fn is_awaited(&self) -> bool {
        self.sender.receiver_count() > 1
    }

    /// Gives those who wait their response.
    pub(crate) fn land(&self, recorded: &Recorded) {
        if self.is_awaited() {
            self.sender.send_replace(Some(Arc::new(recorded.clone())));
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.id);
    }
}
