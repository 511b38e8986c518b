//! The calls that the layer holds: in flight, or waiting for the end of a call.
//!
//! A call outlives its stream, so that no limit in front of the layer bounds the calls behind it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use crate::{
    caller::OwnerId,
    engine::limits::{counter::Counter, lines::Place},
    policy::Limits,
    rejection::{Exceeded, LimitKind, Party},
    telemetry,
};

/// The maximum total size of the request messages of all waiting calls, decompressed, in bytes.
pub(crate) const WAITING_BYTES: usize = 64 << 20;

/// The calls of one layer, counted.
pub(crate) struct Admission {
    in_flight: Counter,
    waiting: Counter,
    max_waiting_bytes: usize,
    waiting_bytes: AtomicUsize,
}

impl Admission {
    pub(crate) fn new(limits: &Limits, max_waiting_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            in_flight: Counter::new(LimitKind::InFlight, limits.in_flight.at_least_one()),
            waiting: Counter::new(LimitKind::Waiting, limits.waiting),
            max_waiting_bytes,
            waiting_bytes: AtomicUsize::new(0),
        })
    }

    /// Counts a call as in flight until the result is dropped.
    pub(crate) fn admit(self: &Arc<Self>, owner: Option<OwnerId>) -> Result<CountedCall, Exceeded> {
        self.in_flight.enter(owner)?;
        telemetry::in_flight(1);
        Ok(CountedCall { admission: Arc::clone(self), owner, bytes: 0, waits: None, waited: 0.0, place: None })
    }

    /// Counts a `WaitOperation` request, which waits for the end of a call, until the result is dropped.
    pub(crate) fn watch(self: &Arc<Self>, owner: OwnerId) -> Result<WaitingRequest, Exceeded> {
        self.waiting.enter(Some(owner))?;
        telemetry::watching(1);
        Ok(WaitingRequest { admission: Arc::clone(self), owner })
    }

    fn take_bytes(&self, bytes: usize) -> bool {
        let enough = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.max_waiting_bytes);
        self.waiting_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    fn end_waiting(&self, owner: Option<OwnerId>, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.leave(owner);
        telemetry::waiting(-1, bytes);
    }
}

/// A call that is counted until this is dropped: in flight at first.
pub(crate) struct CountedCall {
    admission: Arc<Admission>,
    owner: Option<OwnerId>,
    /// The size of its request message, in bytes; zero while it is being read.
    bytes: usize,
    /// The time at which it began to wait; `None` while it is in flight.
    waits: Option<Instant>,
    /// The time that it waited before, in seconds. An `f32`, because each call in flight has one.
    waited: f32,
    /// The place of a run in its line, which is free again once the call is no longer counted.
    place: Option<Box<Place>>,
}

impl CountedCall {
    /// Keeps a place for as long as the call is counted.
    pub(crate) fn keep(&mut self, place: Option<Place>) {
        self.place = place.map(Box::new);
    }

    pub(crate) fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Counts the call as waiting instead of in flight. If that is beyond a limit, it stays in flight.
    pub(in crate::engine) fn wait(&mut self) -> Result<(), Exceeded> {
        if self.waits.is_some() {
            return Ok(());
        }
        let admission = &self.admission;
        admission.waiting.enter(self.owner)?;
        if !admission.take_bytes(self.bytes) {
            admission.waiting.leave(self.owner);
            return Err(Exceeded { limit: LimitKind::Waiting, of: Party::Server });
        }
        admission.in_flight.leave(self.owner);
        self.waits = Some(Instant::now());
        telemetry::in_flight(-1);
        telemetry::waiting(1, self.bytes);
        Ok(())
    }

    /// Counts the call as in flight instead of waiting. If that is beyond a limit, it goes on waiting.
    pub(in crate::engine) fn run(&mut self) -> Result<(), Exceeded> {
        let Some(since) = self.waits else { return Ok(()) };
        self.admission.in_flight.enter(self.owner)?;
        telemetry::in_flight(1);
        self.admission.end_waiting(self.owner, self.bytes);
        self.waits = None;
        self.waited += since.elapsed().as_secs_f32();
        Ok(())
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        if let Some(since) = self.waits {
            self.admission.end_waiting(self.owner, self.bytes);
            self.waited += since.elapsed().as_secs_f32();
        } else {
            self.admission.in_flight.leave(self.owner);
            telemetry::in_flight(-1);
        }
        if self.waited > 0.0 {
            telemetry::waited(self.waited);
        }
    }
}

/// A request that waits for the end of a call, counted until this is dropped.
pub(crate) struct WaitingRequest {
    admission: Arc<Admission>,
    owner: OwnerId,
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.admission.waiting.leave(Some(self.owner));
        telemetry::watching(-1);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::policy::Limit;

    const SERVER: Exceeded = Exceeded { limit: LimitKind::Waiting, of: Party::Server };
    const CALLER: Exceeded = Exceeded { limit: LimitKind::Waiting, of: Party::Caller };

    fn admission() -> Arc<Admission> {
        let limits = Limits { in_flight: Limit::new(3, 2), waiting: Limit::new(3, 2), ..Limits::default() };
        Admission::new(&limits, 100)
    }

    fn owner(id: u128) -> Option<OwnerId> {
        Some(OwnerId::new(Uuid::from_u128(id)))
    }

    /// A call that waits with a request of this size.
    fn waiting(admission: &Arc<Admission>, owner: Option<OwnerId>, bytes: usize) -> Result<CountedCall, Exceeded> {
        let mut call = admission.admit(owner)?;
        call.set_bytes(bytes);
        call.wait().map(|()| call)
    }

    #[test]
    fn refuses_waiting_calls_beyond_each_limit() {
        let admission = admission();
        let mut waits: Vec<_> = [1, 1, 2].map(|id| waiting(&admission, owner(id), 10).expect("it waits")).into();
        assert_eq!(waiting(&admission, owner(1), 10).err(), Some(CALLER));
        assert_eq!(waiting(&admission, owner(2), 10).err(), Some(SERVER));
        waits.pop();
        assert_eq!(waiting(&admission, owner(2), 81).err(), Some(SERVER));
        waiting(&admission, owner(2), 80).expect("it fits exactly");
    }

    #[test]
    fn a_waiting_call_is_not_in_flight_and_may_become_so_again() {
        let admission = admission();
        let mut first = waiting(&admission, owner(1), 10).expect("it waits");
        let others = [1, 1].map(|id| admission.admit(owner(id)).expect("no other is in flight"));
        assert!(first.run().is_err_and(|exceeded| exceeded.limit == LimitKind::InFlight));
        assert!(first.wait().is_ok(), "it waits still");
        drop(others);
        first.run().expect("the others have ended");
        let _second = admission.admit(owner(1)).expect("two are allowed");
        assert!(admission.admit(owner(1)).is_err());
    }

    #[test]
    fn requests_that_watch_a_call_count_as_waiting() {
        let admission = admission();
        let watchers = [1, 1].map(|id| admission.watch(OwnerId::new(Uuid::from_u128(id))).expect("it waits"));
        assert_eq!(waiting(&admission, owner(1), 10).err(), Some(CALLER));
        drop(watchers);
        waiting(&admission, owner(1), 10).expect("they have ended");
        assert_eq!(admission.waiting_bytes.load(Ordering::Relaxed), 0);
    }
}
