//! The limits of the calls that the layer holds: of calls in flight, and of calls that wait for another one.
//!
//! A call outlives its stream, so that no limit in front of the layer bounds the calls behind it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::{caller::OwnerId, rejection::Limit, telemetry};

/// The largest numbers of calls, of all users or of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) in_flight: usize,
    pub(crate) in_flight_per_user: usize,
    pub(crate) waiting: usize,
    /// The bytes of the request messages of all waiting calls.
    pub(crate) waiting_bytes: usize,
    pub(crate) waiting_per_user: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: 1024, in_flight_per_user: 128, waiting: 4096, waiting_bytes: 64 << 20, waiting_per_user: 256 }
    }
}

/// The calls of one layer, counted.
pub(crate) struct Admission {
    limits: Limits,
    counts: Mutex<Counts>,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    /// Counts a call as in flight until the result is dropped. A user counts in each scope as a user of its own, and all calls
    /// without a user as those of one user.
    pub(crate) fn admit(self: &Arc<Self>, owner: Option<OwnerId>) -> Result<Admitted, Limit> {
        self.lock().start(owner, &self.limits)?;
        telemetry::in_flight(1);
        Ok(Admitted { admission: Arc::clone(self), owner, bytes: 0, waits: None, waited: 0.0 })
    }

    /// Ignores poisoning: no operation leaves the counts half changed.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is counted until this is dropped: in flight at first.
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    owner: Option<OwnerId>,
    /// The size of its request message, in bytes; zero while it is being read.
    bytes: usize,
    /// Since when it waits; `None` if it is in flight.
    waits: Option<Instant>,
    /// How long it has waited before, in seconds. Small, since each call in flight has one.
    waited: f32,
}

impl Admitted {
    pub(crate) fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Counts the call as waiting instead of in flight. If that is beyond a limit, it stays in flight.
    pub(super) fn wait(&mut self) -> Result<(), Limit> {
        if self.waits.is_some() {
            return Ok(());
        }
        let mut counts = self.admission.lock();
        counts.start_waiting(self.owner, self.bytes, &self.admission.limits)?;
        counts.end(self.owner);
        drop(counts);
        self.waits = Some(Instant::now());
        telemetry::in_flight(-1);
        telemetry::waiting(1, self.bytes);
        Ok(())
    }

    /// Counts the call as in flight instead of waiting. If that is beyond a limit, it goes on waiting.
    pub(super) fn run(&mut self) -> Result<(), Limit> {
        let Some(since) = self.waits else { return Ok(()) };
        let mut counts = self.admission.lock();
        counts.start(self.owner, &self.admission.limits)?;
        counts.end_waiting(self.owner, self.bytes);
        drop(counts);
        self.waits = None;
        self.waited += since.elapsed().as_secs_f32();
        telemetry::waiting(-1, self.bytes);
        telemetry::in_flight(1);
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(since) = self.waits {
            self.admission.lock().end_waiting(self.owner, self.bytes);
            telemetry::waiting(-1, self.bytes);
            self.waited += since.elapsed().as_secs_f32();
        } else {
            self.admission.lock().end(self.owner);
            telemetry::in_flight(-1);
        }
        if self.waited > 0.0 {
            telemetry::waited(self.waited);
        }
    }
}

/// The counts of all calls. Only users with calls have an entry.
#[derive(Default)]
struct Counts {
    all: Count,
    of_users: HashMap<Option<OwnerId>, Count>,
    waiting_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    in_flight: usize,
    waiting: usize,
}

impl Counts {
    /// Checks the caller's own limit first, since it says more.
    fn start(&mut self, owner: Option<OwnerId>, limits: &Limits) -> Result<(), Limit> {
        if self.of(owner).in_flight >= limits.in_flight_per_user {
            return Err(Limit::InFlightPerUser);
        }
        if self.all.in_flight >= limits.in_flight {
            return Err(Limit::InFlight);
        }
        self.change(owner, |count| count.in_flight += 1);
        Ok(())
    }

    fn end(&mut self, owner: Option<OwnerId>) {
        self.change(owner, |count| count.in_flight -= 1);
    }

    fn start_waiting(&mut self, owner: Option<OwnerId>, bytes: usize, limits: &Limits) -> Result<(), Limit> {
        if self.of(owner).waiting >= limits.waiting_per_user {
            return Err(Limit::WaitingPerUser);
        }
        if self.all.waiting >= limits.waiting {
            return Err(Limit::Waiting);
        }
        if bytes > limits.waiting_bytes.saturating_sub(self.waiting_bytes) {
            return Err(Limit::WaitingBytes);
        }
        self.waiting_bytes += bytes;
        self.change(owner, |count| count.waiting += 1);
        Ok(())
    }

    fn end_waiting(&mut self, owner: Option<OwnerId>, bytes: usize) {
        self.waiting_bytes -= bytes;
        self.change(owner, |count| count.waiting -= 1);
    }

    fn of(&self, owner: Option<OwnerId>) -> Count {
        self.of_users.get(&owner).copied().unwrap_or_default()
    }

    fn change(&mut self, owner: Option<OwnerId>, change: impl Fn(&mut Count)) {
        change(&mut self.all);
        let count = self.of_users.entry(owner).or_default();
        change(count);
        if count.in_flight == 0 && count.waiting == 0 {
            self.of_users.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const LIMITS: Limits =
        Limits { in_flight: 3, in_flight_per_user: 2, waiting: 3, waiting_bytes: 100, waiting_per_user: 2 };

    fn owner(id: u128) -> Option<OwnerId> {
        Some(OwnerId::new(Uuid::from_u128(id)))
    }

    /// A call that waits with a request of this size.
    fn waiting(admission: &Arc<Admission>, owner: Option<OwnerId>, bytes: usize) -> Result<Admitted, Limit> {
        let mut call = admission.admit(owner)?;
        call.set_bytes(bytes);
        call.wait().map(|()| call)
    }

    #[test]
    fn refuses_calls_beyond_the_limit_of_a_user_and_of_all() {
        let admission = Admission::new(LIMITS);
        let first = admission.admit(owner(1)).expect("the first");
        let _second = admission.admit(owner(1)).expect("the second");
        assert_eq!(admission.admit(owner(1)).err(), Some(Limit::InFlightPerUser));
        let _without_user = admission.admit(None).expect("another owner's");
        assert_eq!(admission.admit(owner(2)).err(), Some(Limit::InFlight));
        drop(first);
        admission.admit(owner(2)).expect("one has ended");
    }

    #[test]
    fn refuses_waiting_calls_beyond_each_limit() {
        let admission = Admission::new(LIMITS);
        let mut waits: Vec<_> = [1, 1, 2].map(|id| waiting(&admission, owner(id), 10).expect("it waits")).into();
        assert_eq!(waiting(&admission, owner(1), 10).err(), Some(Limit::WaitingPerUser));
        assert_eq!(waiting(&admission, owner(2), 10).err(), Some(Limit::Waiting));
        waits.pop();
        assert_eq!(waiting(&admission, owner(2), 81).err(), Some(Limit::WaitingBytes));
        waiting(&admission, owner(2), 80).expect("it fits exactly");
    }

    #[test]
    fn a_waiting_call_is_not_in_flight_and_may_become_so_again() {
        let admission = Admission::new(LIMITS);
        let mut first = waiting(&admission, owner(1), 10).expect("it waits");
        let _others = [1, 1].map(|id| admission.admit(owner(id)).expect("no other is in flight"));
        assert_eq!(first.run(), Err(Limit::InFlightPerUser));
        assert!(first.wait().is_ok(), "it waits still");
        drop(_others);
        first.run().expect("the others have ended");
        let _second = admission.admit(owner(1)).expect("two are allowed");
        assert_eq!(admission.admit(owner(1)).err(), Some(Limit::InFlightPerUser));
    }

    #[test]
    fn remembers_no_user_without_calls() {
        let admission = Admission::new(LIMITS);
        for id in 0..100 {
            drop(admission.admit(owner(id)).expect("the only one"));
            drop(waiting(&admission, owner(id), 10).expect("the only one"));
        }
        let counts = admission.lock();
        assert!(counts.of_users.is_empty());
        assert_eq!((counts.all.in_flight, counts.all.waiting, counts.waiting_bytes), (0, 0, 0));
    }
}
