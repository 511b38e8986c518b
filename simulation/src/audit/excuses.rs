//! The faults, and what each of them can have caused: it excuses nothing else.

use std::{cell::RefCell, cmp::Reverse, collections::BTreeMap, time::Duration};

use tonic_idempotency::policy::{LeasePolicy, StorePolicy};
use uuid::Uuid;

use crate::{
    database::{KEEPALIVES, Loss, SILENCE},
    ledger::{Call, Evidence, HandlerRun, Strike},
    plan::{Away, End, Kind, Plan, Procedure, caller},
    server::UNRECORDED,
    sometimes::Counts,
    world::{BEGINNING, Process},
};

/// The time within which an outcome is recorded, or a lease renewed, if nothing hinders it.
const SOON: Duration = Duration::from_secs(1);

/// The time within which one retry heals what was over at once.
const RETRY: Duration = Duration::from_millis(100);

/// How long a call waits for keys: twice at most, since the second time they have just answered.
const FOR_KEYS: Duration = Duration::from_secs(10);

/// The time after which a status counts as overdue.
const OVERDUE: Duration = Duration::from_millis(250);

/// By how much earlier than the layer the ledger may begin to count the time of a handler, and by how much later it may notice its end.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The renewals of one key that may be on their way at once.
const RENEWALS: u32 = 5;

/// The longest time that a message takes in a storm.
const STORM: Duration = Duration::from_millis(800);

/// The time for which a key that tells when it was made may be used beyond its retention: the clocks of clients may differ.
pub(super) const SKEW: Duration = Duration::from_secs(300);

/// A time in which something kept a process from its work with the store.
#[derive(Clone, Copy, Debug)]
struct Hindrance {
    from: Duration,
    to: Duration,
    /// Whether neither side may have heard of the other.
    is_silent: bool,
    /// Whether connections that were not used meanwhile may be silent for ever.
    is_lurking: bool,
    /// Whether the store may have been away, rather than slow or busy.
    is_away: bool,
}

/// The excuses of one run of the simulation.
#[derive(Debug)]
pub(super) struct Excuses<'a> {
    pub(super) plan: &'a Plan,
    pub(super) evidence: &'a Evidence,
    /// When each effect in the database was committed, by the number of its run.
    pub(super) committed: BTreeMap<u64, Duration>,
    /// How often each was used.
    pub(super) uses: RefCell<Counts>,
}

impl Excuses<'_> {
    /// Counts the use of an excuse, if it is one.
    pub(super) fn uses(&self, excuse: &'static str, is_excused: bool) -> bool {
        if is_excused {
            *self.uses.borrow_mut().entry(excuse.to_owned()).or_default() += 1;
        }
        is_excused
    }

    /// Returns whether another run of its key may follow a run that was reserved, and take the key at this time.
    pub(super) fn may_run_again(&self, run: &HandlerRun, at: Duration) -> bool {
        let reruns = self.plan.settings.policies.on_lease_ended == LeasePolicy::Rerun;
        self.uses("a lost call is run again", reruns && self.is_lost(run.call))
            || self.is_unprotected(run)
            || self.is_taken_back_since(run, at)
    }

    /// Returns whether the lease of a run may have ended before it began, by a jump of the database's clock. A reconciler that is asked then
    /// cannot know of it.
    pub(super) fn is_outrun(&self, run: &HandlerRun) -> bool {
        let settings = &self.plan.settings;
        let arrived = self.evidence.calls[run.call].arrived;
        let is_outrun = self.plan.operation(run.operation).procedure.is_reserved()
            && settings.policies.on_lease_ended == LeasePolicy::Reconcile
            && self.jumps(arrived, run.began) + (run.began - arrived) >= settings.policies.lease.mul_f64(0.98);
        self.uses("a jump ended the lease before the run", is_outrun)
    }

    /// Returns whether a failover, or a crash, has lost a reservation or a record of the key of this operation meanwhile.
    pub(super) fn is_taken_back(&self, operation: usize, from: Duration, to: Duration) -> bool {
        self.losses(operation, from, to).any(|(_, loss)| self.uses(name_of(loss), true))
    }

    /// Returns whether a failover has lost the reservation or the record of a run before this time; or a crash its reservation, and it had no
    /// effect yet: that would have been on the disk with it.
    pub(super) fn is_taken_back_since(&self, run: &HandlerRun, to: Duration) -> bool {
        let effect = self.committed.get(&(run.number as u64)).copied();
        self.losses(run.operation, self.life(run.call).0, to).any(|(at, loss)| {
            let outlives = loss == Loss::FailOver || effect.is_none_or(|effect| effect >= at);
            outlives && self.uses(name_of(loss), true)
        })
    }

    /// Returns when commits of the key of an operation were lost meanwhile, and why. A crash loses only those that did not wait for the disk.
    fn losses(&self, operation: usize, from: Duration, to: Duration) -> impl Iterator<Item = (Duration, Loss)> {
        let operation = self.plan.operation(operation);
        let owner = operation.user.map(|user| *caller(user, operation.scope).owner().as_uuid());
        let lost = owner.and_then(|owner| self.evidence.lost.keys.get(&(owner, operation.stored)));
        let may_be_lost = move |(at, loss): &(Duration, Loss)| {
            let waits = operation.procedure != Procedure::Insert;
            from <= *at && *at <= to && (*loss == Loss::FailOver || !waits)
        };
        lost.into_iter().flatten().copied().filter(may_be_lost)
    }

    /// Returns whether a run may have begun without a reservation: the store could not be asked, and that is allowed.
    pub(super) fn is_unprotected(&self, run: &HandlerRun) -> bool {
        let call = &self.evidence.calls[run.call];
        // It has waited for as long as the store is waited for, on a connection that has fallen silent before.
        let has_waited = run.began - call.arrived >= self.plan.settings.timeout.mul_f64(0.9);
        let is_away = |it: &Hindrance| {
            it.from <= run.began && (it.to >= call.arrived && it.is_away || it.is_silent && has_waited)
        };
        let is_unprotected = self.plan.operation(run.operation).procedure.is_reserved()
            && self.plan.settings.policies.on_store_unavailable == StorePolicy::Proceed
            && self.hindrances(call).any(|it| is_away(&it));
        self.uses("it may run unprotected", is_unprotected)
    }

    /// Returns whether a call may have lost its key before its outcome was recorded: its process was killed, or its lease could not be renewed.
    pub(super) fn is_lost(&self, call: usize) -> bool {
        self.is_killed(call) || self.has_lapsed(call, Duration::MAX)
    }

    /// Returns whether the process of a call was killed before its outcome was recorded.
    pub(super) fn is_killed(&self, call: usize) -> bool {
        let (held, settled) = self.life(call);
        self.killed(&self.evidence.calls[call]).any(|at| held <= at && at <= settled)
    }

    /// Returns whether the lease of a call may have ended by a time, before its outcome was recorded.
    pub(super) fn has_lapsed(&self, call: usize, by: Duration) -> bool {
        let (held, settled) = self.life(call);
        let by = settled.min(by);
        let lost_until = |time| self.hindered(&self.evidence.calls[call], held, time) + self.jumps(held, time);
        // It is renewed after each third, and after each ninth if that fails; and no more when the time of its handler is up.
        let least = self.plan.settings.policies.lease.mul_f64(0.65);
        let is_left = |run: &HandlerRun| {
            let cut = self.time_was_up(run).filter(|cut| run.call == call && *cut <= by);
            cut.is_some_and(|cut| lost_until(cut) + (by - cut) + self.jumps(cut, by) >= least)
        };
        lost_until(by) >= least || self.evidence.runs.iter().any(is_left)
    }

    /// Returns when the handler of a run has to have ended at the earliest.
    pub(super) fn time_is_up(&self, run: &HandlerRun) -> Duration {
        let first = self.evidence.runs.iter().find(|it| it.call == run.call).map_or(run.began, |it| it.began);
        let arrived = self.evidence.calls[run.call].arrived;
        // A paused process may have begun it, and the handler not.
        let first = if self.is_paused(run.call, arrived, first) { arrived } else { first };
        first + self.plan.settings.policies.handler_timeout
    }

    /// Returns when a run was cut off because its time was up; `None` if it was not.
    pub(super) fn time_was_up(&self, run: &HandlerRun) -> Option<Duration> {
        run.cut.filter(|cut| *cut + TICK >= self.time_is_up(run))
    }

    /// Returns whether a run has left its outcome unknown: by an error after its effect, or because its time was up.
    pub(super) fn is_unknown(&self, run: &HandlerRun) -> bool {
        run.ended.is_some_and(|(_, end)| end == End::ErrorAfterEffect) || self.time_was_up(run).is_some()
    }

    /// Returns whether anything hindered the process of a call meanwhile.
    pub(super) fn is_hindered(&self, call: usize, from: Duration, to: Duration) -> bool {
        self.hindrances(&self.evidence.calls[call]).any(|it| it.from <= to && it.to >= from)
    }

    /// Returns whether the process of a call was paused meanwhile.
    pub(super) fn is_paused(&self, call: usize, from: Duration, to: Duration) -> bool {
        self.pauses(&self.evidence.calls[call].process).any(|it| it.from <= to && it.to >= from)
    }

    fn pauses<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = &'a Strike> + 'a {
        self.evidence.faults.iter().filter(move |fault| {
            let is_its = || fault.process.as_ref().is_some_and(|it| it.is(process));
            fault.kind == Kind::Stall || matches!(fault.kind, Kind::Pause(_)) && is_its()
        })
    }

    /// Returns whether the call cannot have told the database that it ends: its process was paused, or silence was between them.
    pub(super) fn is_silenced(&self, call: usize, from: Duration, to: Duration) -> bool {
        self.hindrances(&self.evidence.calls[call]).any(|it| it.is_silent && it.from <= to && it.to >= from)
    }

    /// Returns whether a connection that has fallen silent before may be used at this time: both sides give one up whose messages are not
    /// acknowledged, but no client does that was idle when another server took over.
    pub(super) fn may_be_silent(&self, call: usize, at: Duration) -> bool {
        let is_silent =
            |it: Hindrance| it.is_silent && it.from <= at && (it.is_lurking || at <= it.to + SILENCE + KEEPALIVES);
        self.hindrances(&self.evidence.calls[call]).any(is_silent)
    }

    /// Returns when a call may have got its key at the earliest, and when its outcome was recorded at the latest, unless its process was killed.
    pub(super) fn life(&self, call: usize) -> (Duration, Duration) {
        let settings = &self.plan.settings;
        let mut runs = self.evidence.runs.iter().filter(|run| run.call == call);
        let first = runs.next();
        // A transaction that has lost is run again.
        let last = runs.next_back().or(first);
        let call = &self.evidence.calls[call];
        let held = first.map_or(call.arrived, |run| call.arrived.max(self.claimed(call, run)));
        let ended = match last {
            Some(run) if self.plan.operation(run.operation).procedure.is_reserved() => {
                // Its lease ends by itself, after a renewal that may be on its way.
                let left = self.time_was_up(run).map(|cut| cut + settings.policies.lease + settings.timeout);
                run.ended.map(|(at, _)| at).or(left).or(run.cut)
            }
            Some(run) => run.ended.map(|(at, _)| at).or(run.cut),
            // Its claim goes on if its client hangs up.
            None => call.left.map(|at| at + settings.timeout + self.waits_for_keys(call, at)),
        };
        let Some(ended) = ended else { return (held, Duration::MAX) };
        let mut settled = ended + SOON;
        let mut hindrances: Vec<_> = self.hindrances(call).filter(|it| it.to >= ended).collect();
        hindrances.sort_by_key(|it| it.from);
        for hindrance in hindrances {
            if hindrance.from <= settled {
                // The longest pause between two attempts.
                settled = settled.max(hindrance.to + settings.policies.lease / 6 + settings.timeout + SOON);
            }
        }
        (held, settled)
    }

    /// Returns how long a call may wait for keys at most, until it claims its key: they hang for a while at its server before this time.
    pub(super) fn waits_for_keys(&self, call: &Call, before: Duration) -> Duration {
        let absences = self.plan.settings.sealing.iter().flat_map(|sealing| &sealing.absences);
        let mut hanging = absences.filter(|it| it.kind == Away::Hangs && it.is_at(call.server));
        if hanging.any(|it| it.from <= before && call.arrived <= it.to) { FOR_KEYS } else { Duration::ZERO }
    }

    /// Returns when the claim before a run was sent at the earliest: its process may have been paused before it read the answer.
    fn claimed(&self, call: &Call, run: &HandlerRun) -> Duration {
        let longest = self.plan.settings.timeout + SOON;
        let mut pauses: Vec<_> = self.pauses(&call.process).filter(|it| it.from <= run.began).collect();
        pauses.sort_by_key(|it| Reverse(it.from));
        pauses.into_iter().fold(run.began.saturating_sub(longest), |claimed, pause| {
            if pause.to >= claimed { claimed.min(pause.from.saturating_sub(longest)) } else { claimed }
        })
    }

    /// Returns until when the release of a run that failed may wait: no attempt of its claim whose connection was lost may arrive any more.
    pub(super) fn release_waits(&self, run: &HandlerRun) -> Option<Duration> {
        let call = &self.evidence.calls[run.call];
        let has_lost = self.hindrances(call).any(|it| it.from <= run.began && it.to >= call.arrived);
        let is_released = run.ended.is_some_and(|(_, end)| matches!(end, End::Error | End::FinalError | End::Panic));
        (has_lost && is_released).then(|| run.began + self.plan.settings.timeout + SOON)
    }

    /// Returns the age of a key that tells when it was made.
    pub(super) fn age(&self, key: Uuid, at: Duration) -> Duration {
        let made = key.get_timestamp().map(|made| made.to_unix());
        let made = made.map_or(Duration::MAX, |(seconds, nanoseconds)| Duration::new(seconds, nanoseconds));
        (Duration::from_secs(BEGINNING) + at).saturating_sub(made)
    }

    /// By how much at most the wall clock of a server was ahead at some time meanwhile, and by how much behind.
    pub(super) fn wall_clocks(&self, from: Duration, to: Duration) -> [Duration; 2] {
        let [mut ahead, mut behind] = [Duration::ZERO; 2];
        for fault in self.evidence.faults.iter().filter(|fault| fault.from <= to && from <= fault.to) {
            match fault.kind {
                Kind::WallClocks(by) if by > 0 => ahead += Duration::from_millis(by.unsigned_abs()),
                Kind::WallClocks(by) => behind += Duration::from_millis(by.unsigned_abs()),
                _ => {}
            }
        }
        [ahead, behind]
    }

    /// By how much the database's clock has jumped ahead meanwhile.
    pub(super) fn jumps(&self, from: Duration, to: Duration) -> Duration {
        let jumps = self.evidence.faults.iter().filter(|fault| fault.kind == Kind::Jump);
        jumps.filter(|jump| from <= jump.from && jump.from <= to).map(|jump| jump.to - jump.from).sum()
    }

    /// Returns whether a claim of a call may have reserved the key for the call when it had ended, and nothing released it: docs/guarantees.md,
    /// "A late claim".
    pub(super) fn may_claim_late(&self, call: usize) -> bool {
        let (held, settled) = self.life(call);
        let operation = self.plan.operation(self.evidence.attempts[self.evidence.calls[call].attempt]);
        // It waits for a row that a transaction has written.
        let is_mixed =
            self.plan.operations.iter().any(|it| it.stored == operation.stored && it.procedure == Procedure::Enter);
        let settings = &self.plan.settings;
        // It is released for a lease, and the last of these attempts may have begun a timeout ago.
        let hangs = |fault: &Strike| {
            fault.trouble.commit[1] + settings.timeout + RETRY >= settings.policies.lease
                && fault.from <= settled
                && held <= fault.to + fault.trouble.commit[1]
        };
        let causes = |fault: &Strike| hangs(fault) || fault.kind == Kind::SetBack && fault.from <= settled;
        operation.procedure.is_reserved()
            && (is_mixed || self.is_hindered(call, held, settled))
            && (self.evidence.faults.iter().any(causes) || self.is_backlog_full(call))
    }

    /// Returns whether so many outcomes of others may have waited to be recorded that the release of a lost claim was dropped: half of the limit.
    fn is_backlog_full(&self, call: usize) -> bool {
        let calls = &self.evidence.calls;
        let (held, settled) = self.life(call);
        let waits_beside = |other: &usize| {
            *other != call
                && calls[*other].process.is(&calls[call].process)
                && calls[*other].arrived <= settled
                // A lost claim is released for a lease.
                && held <= self.life(*other).1.saturating_add(self.plan.settings.policies.lease)
        };
        self.plan.settings.is_narrow && (0..calls.len()).filter(waits_beside).nth(UNRECORDED / 2 - 1).is_some()
    }

    /// By how much the database's clock was set back in all before this time.
    pub(super) fn set_back(&self, before: Duration) -> Duration {
        let all = self.evidence.faults.iter().filter(|fault| fault.kind == Kind::SetBack && fault.from <= before);
        all.map(|fault| fault.to - fault.from).sum()
    }

    /// How long the renewals of one key that are sent in a time of slow COMMITs wait for each other before this time.
    pub(super) fn queued_commits(&self, before: Duration) -> Duration {
        let slow =
            self.evidence.faults.iter().filter(|fault| fault.from <= before).map(|fault| fault.trouble.commit[1]);
        RENEWALS * slow.max().unwrap_or_default()
    }

    /// Returns whether statements may still wait for the COMMITs of a slow time. Each that waits for a row of another holds its connection.
    pub(super) fn are_commits_queued(&self, at: Duration) -> bool {
        self.evidence.faults.iter().any(|fault| {
            let slow = fault.trouble.commit[1];
            slow > Duration::ZERO && fault.from <= at && at <= fault.to + (1 + RENEWALS) * slow
        })
    }

    /// Returns how long a process was hindered meanwhile.
    fn hindered(&self, call: &Call, from: Duration, to: Duration) -> Duration {
        let mut hindrances: Vec<_> = self.hindrances(call).collect();
        hindrances.sort_by_key(|it| it.from);
        let (mut sum, mut counted) = (Duration::ZERO, from);
        for Hindrance { from, to: ends, .. } in hindrances {
            let (begins, ends) = (from.max(counted), ends.min(to));
            sum += ends.saturating_sub(begins);
            counted = counted.max(ends);
        }
        sum
    }

    /// Returns when the process of a call was killed.
    pub(super) fn killed<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = Duration> + 'a {
        self.evidence.faults.iter().filter_map(|fault| {
            let is_its = fault.process.as_ref().is_some_and(|process| process.is(&call.process));
            match fault.kind {
                Kind::Kill(_) if is_its => Some(fault.from),
                // With calls that it has left.
                Kind::Stop(_) if is_its && !self.has_stopped_well(&call.process) => Some(fault.to),
                _ => None,
            }
        })
    }

    /// Returns whether a process was shut down with no call left.
    fn has_stopped_well(&self, process: &Process) -> bool {
        self.evidence.stopped.iter().any(|(stopped, _)| stopped.is(process))
    }

    /// Returns whether as many calls as there are connections have come to the process of a call at one moment of a fault.
    fn fill_connections(&self, call: &Call, fault: &Strike) -> bool {
        let begun = fault.from.saturating_sub(OVERDUE);
        let is_beside = |it: &&Call| it.process.is(&call.process) && begun <= it.arrived && it.arrived <= fault.to;
        let mut arrived: Vec<_> = self.evidence.calls.iter().filter(is_beside).map(|it| it.arrived).collect();
        arrived.sort_unstable();
        // A call asks for each hash that a record of its request may have, and for the first one again.
        let hashes = self.plan.settings.sealing.as_ref().map_or(1, |sealing| sealing.rotations.len() + 3);
        let mut crowds = arrived.windows((self.plan.settings.connections / hashes).max(1));
        crowds.any(|crowd| crowd.last().zip(crowd.first()).is_some_and(|(last, first)| *last - *first <= OVERDUE))
    }

    /// Returns whether connections may have ended during a fault that lets no message through, which an idle client is not told of, even later.
    pub(super) fn is_not_heard(&self, silence: &Strike) -> bool {
        let is_meanwhile = |other: &Strike| other.from <= silence.to && silence.from <= other.to;
        let ends_sessions = |other: &Strike| matches!(other.kind, Kind::EndSessions | Kind::Restart);
        matches!(silence.kind, Kind::FailOver | Kind::LoseCommits(_))
            || self.evidence.faults.iter().any(|other| ends_sessions(other) && is_meanwhile(other))
    }

    /// Returns what hindered the process of a call, until the last that was on its way is given up.
    fn hindrances<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = Hindrance> + 'a {
        let settings = &self.plan.settings;
        self.evidence.faults.iter().filter_map(move |fault| {
            let is_its = fault.process.as_ref().is_some_and(|process| process.is(&call.process));
            let after = match fault.kind {
                Kind::Pause(_) if is_its => RETRY,
                Kind::Stall => RETRY,
                Kind::SplitDatabase(server) | Kind::StormDatabase(server) | Kind::SilenceDatabase(server)
                    if server == call.server =>
                {
                    settings.timeout + 2 * STORM
                }
                Kind::Outage => settings.timeout + 2 * STORM,
                Kind::CutDatabase(server) if server == call.server => RETRY,
                Kind::RefuseDatabase(server) if server == call.server => settings.timeout,
                Kind::EndSessions => RETRY,
                Kind::Restart | Kind::FailOver | Kind::LoseCommits(_) => settings.timeout,
                Kind::Trouble | Kind::SlowStatements | Kind::SlowCommits | Kind::CutsAtStatements => {
                    settings.timeout + fault.trouble.latency[1] + fault.trouble.commit[1]
                }
                // Calls that ask before the first is overdue have all connections.
                Kind::SlowStatuses if self.fill_connections(call, fault) => settings.timeout + fault.trouble.status[1],
                Kind::CutClients
                | Kind::CutDatabase(_)
                | Kind::DistortClients
                | Kind::Jump
                | Kind::Kill(_)
                | Kind::Pause(_)
                | Kind::RefuseDatabase(_)
                | Kind::RepeatClients
                | Kind::SetBack
                | Kind::SilenceDatabase(_)
                | Kind::SlowStatuses
                | Kind::SplitClients
                | Kind::SplitDatabase(_)
                | Kind::Stop(_)
                | Kind::StormClients
                | Kind::StormDatabase(_)
                | Kind::StormOutside(_)
                | Kind::WallClocks(_) => return None,
            };
            let is_momentary = matches!(fault.kind, Kind::CutDatabase(_) | Kind::EndSessions);
            let is_silent =
                !is_momentary && !matches!(fault.kind, Kind::Restart | Kind::RefuseDatabase(_) | Kind::SlowStatuses);
            // Even an empty statement is answered too late; or those that hang on their COMMITs have all connections.
            let is_slow = fault.trouble.latency[1].max(fault.trouble.commit[1]) >= settings.timeout / 2;
            let is_away = match fault.kind {
                Kind::Trouble | Kind::SlowStatements | Kind::SlowCommits | Kind::SlowStatuses => is_slow,
                // Long enough for no answer in all of the time of a claim.
                Kind::CutsAtStatements => fault.to - fault.from >= settings.timeout,
                _ => !is_momentary,
            };
            let is_lurking = is_silent && self.is_not_heard(fault);
            Some(Hindrance { from: fault.from, to: fault.to + after, is_silent, is_lurking, is_away })
        })
    }
}

fn name_of(loss: Loss) -> &'static str {
    match loss {
        Loss::Crash => "a crash lost a reservation that did not wait for the disk",
        Loss::FailOver => "a failover lost a commit",
    }
}
