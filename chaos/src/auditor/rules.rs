//! The promises that depend on the mode and the policy.

use std::time::Duration;

use super::Promise;
use crate::{
    args::StorePolicy,
    fault::FaultKind,
    journal::{Attempt, Entries, Fault, Run, UnprotectedRun},
    mode::Mode,
    witness::STORE_TIMEOUT,
};

/// How much of its timeout a claim may have had without a stall, if it got no answer for a stall.
const SLACK: Duration = Duration::from_secs(1);

/// The time that the calls of a server take, after a pause, until their handlers have begun.
const AWAKE: Duration = Duration::from_secs(1);

/// The acknowledged data that a failover may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    Nothing,
    /// The records, which are on Redis.
    Records,
    /// Both: the replication is asynchronous.
    RecordsAndEffects,
}

/// The mode and the policy that decide what the service promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) lease: Duration,
    pub(crate) may_lose: Losses,
    pub(crate) mode: Mode,
    pub(crate) on_store_unavailable: StorePolicy,
}

impl Rules {
    /// Whether this promise is not made: a failover has happened, which may have lost records that it rests upon.
    pub(super) fn excuse_loss(self, promise: Promise, faults: &[Fault]) -> bool {
        self.may_lose != Losses::Nothing
            && promise.rests_upon_records()
            && faults.iter().any(|fault| fault.kind.is_failover())
    }

    /// Whether a failover may have lost an effect.
    pub(super) fn excuse_lost_effect(self, faults: &[Fault]) -> bool {
        self.may_lose == Losses::RecordsAndEffects && self.excuse_loss(Promise::NothingLost, faults)
    }

    /// Whether the service may answer that the outcome of an operation is unknown.
    pub(super) fn allow_unknown(self) -> bool {
        self.mode == Mode::Reserved
    }

    /// Whether the policy allows this unprotected run: the store could not be asked during its claim.
    ///
    /// | during the claim | the store could be asked |
    /// |---|---|
    /// | the database was killed or replaced, or its server was paused | no |
    /// | nothing passed for as long as the store's timeout | no |
    /// | a witness on the same way got no answer | no |
    /// | anything else: any number of cuts, silent connections, a stall that ended in time | yes |
    pub(super) fn allow_unprotected(self, run: &UnprotectedRun, entries: &Entries) -> bool {
        if self.mode != Mode::Reserved || self.on_store_unavailable != StorePolicy::Proceed {
            return false;
        }
        let overlap = |begun: Duration, ended: Duration| {
            (begun <= run.ran && ended >= run.asked).then(|| ended.min(run.ran) - begun.max(run.asked))
        };
        let blacked_out = |slot| slot == run.server.slot;
        if entries.blackouts.iter().any(|it| blacked_out(it.slot) && overlap(it.begun, it.ended).is_some()) {
            return true;
        }
        let mut stalled = Duration::ZERO;
        for fault in entries.faults.iter().filter(|fault| fault.whom.has(run.server)) {
            let Some(overlap) = overlap(fault.begun, fault.ended) else { continue };
            match fault.kind {
                FaultKind::DatabaseKilled | FaultKind::ServerPausedAt(_) => return true,
                kind if kind.is_failover() => return true,
                FaultKind::DatabaseStalled => stalled += overlap,
                _ => {}
            }
        }
        stalled + SLACK >= STORE_TIMEOUT
    }

    /// Whether a fault may have ended the transaction of a run before this time.
    pub(super) fn may_lose_transactions(self, run: &Run, until: Duration, faults: &[Fault]) -> bool {
        let near = |fault: &&Fault| fault.begun <= until && fault.ended >= run.begun && !fault.kind.spares_operations();
        self.mode == Mode::Transactional && faults.iter().filter(near).any(|fault| fault.whom.has(run.server))
    }

    /// Whether a run may have begun in a transaction that PostgreSQL had ended, as its server was paused between its claim and its handler, or
    /// had the answer to its claim late.
    pub(super) fn may_begin_late(self, run: &Run, faults: &[Fault]) -> bool {
        let delays = |fault: &&Fault| {
            matches!(fault.kind, FaultKind::DatabaseStalled | FaultKind::ServerPausedAt(_))
                && fault.whom.has(run.server)
        };
        let mut delays = faults.iter().filter(delays);
        self.mode == Mode::Transactional
            && delays.any(|fault| fault.begun <= run.begun && run.begun <= fault.ended + AWAKE)
    }

    /// Whether a fault may have hit one of these attempts, or the server's work for it after the client had its answer.
    /// That work takes at most as long as the lease.
    pub(super) fn hit(self, attempts: &[&Attempt], faults: &[Fault]) -> bool {
        self.hit_within(attempts, faults, self.lease)
    }

    /// The same, if that work takes at most this long.
    pub(super) fn hit_within(self, attempts: &[&Attempt], faults: &[Fault], work: Duration) -> bool {
        attempts.iter().any(|attempt| {
            let until = attempt.ended.as_ref().map_or(Duration::MAX, |(ended, _)| ended.saturating_add(work));
            let near = |fault: &&Fault| fault.begun <= until && fault.ended >= attempt.begun;
            faults.iter().filter(near).any(|fault| !fault.kind.spares_operations() && fault.whom.has(attempt.server))
        })
    }
}
