//! Carries out operations on a key by the transitions of the store in memory: [`Model`].

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use tonic_idempotency::{
    policy::{ForeignPolicy, LeasePolicy},
    status::{OutboxStatus, Resource},
    store::{
        Claim, ClaimOutcome, CompleteOutcome, Completion, ExtendOutcome, ReleaseOutcome, Replay, RequestHashes,
        Reservation, StatusError, StoredResponse,
        memory_transitions::{Look, Record},
    },
};
use uuid::Uuid;

use super::{
    operation::{Done, IDLE, Operation, describe},
    subject::{GoStatement, StoredRow},
};

/// The state of a key. Its clock stands: leases and retentions have ended at once, or last for hours.
#[derive(Clone, Debug)]
pub(super) struct Model {
    now: Instant,
    pub(super) row: Option<Row>,
    /// The token of the transaction that has the key's lock.
    lock: Option<Uuid>,
    /// The rows that open transactions may replace, by their tokens.
    transactions: BTreeMap<Uuid, Seen>,
    /// The number of the next row or write.
    next: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    number: u64,
    pub(super) record: Record,
    is_foreign: bool,
    /// The number of the write that has set its lease.
    leased: u64,
    /// The number of the write that has set when it expires.
    dated: u64,
}

/// The row that a transaction has found at its beginning.
#[derive(Clone, Debug)]
struct Seen {
    /// Nothing: it inserts its record, and a row that has come since is an error.
    nothing: bool,
    row: Option<(u64, Uuid)>,
}

/// The state after a step of an operation.
#[derive(Clone, Debug)]
pub(super) enum Next {
    /// The operation has ended.
    End(Model),
    /// It has a further step, which knows this of the step before.
    Step(Model, u64),
}

/// A step of an operation that is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) number: u8,
    pub(super) known: u64,
}

impl Model {
    pub(super) fn new() -> Self {
        Self { now: Instant::now(), row: None, lock: None, transactions: BTreeMap::new(), next: 1 }
    }

    /// Returns whether the sweep may delete the row.
    pub(super) fn has_expired(&self) -> bool {
        self.row.as_ref().is_some_and(|row| !row.record.is_live(self.now))
    }

    pub(super) fn without_row(&self) -> Self {
        Self { row: None, ..self.clone() }
    }

    /// Describes the row.
    pub(super) fn describe(&self) -> Option<String> {
        let Row { record, is_foreign, .. } = self.row.clone()?;
        Some(StoredRow { record, is_foreign, now: self.now }.describe())
    }

    /// Forgets numbers that nothing refers to, so that equal states look equal.
    pub(super) fn settled(mut self) -> Self {
        if self.transactions.is_empty() {
            self.next = 2;
            self.row.iter_mut().for_each(|row| (row.number, row.leased, row.dated) = (1, 1, 1));
        }
        self
    }

    /// Carries out the next step of an operation, if its answer fits.
    pub(super) fn step(&self, done: &Done, step: Step, resources: &[(Resource, Option<OutboxStatus>)]) -> Option<Next> {
        let mut model = self.clone();
        let ends = |model: Self, is_so: bool| is_so.then_some(Next::End(model));
        let answers = |text: &str| done.answer == text;
        match &done.operation {
            Operation::Begin(claim) => model.begin(done, claim, step, resources),
            Operation::Commit(claim, completion) => model.commit(done, claim, completion.as_ref(), step),
            Operation::RollBack(claim) => {
                model.unlock(claim);
                ends(model, answers("rolled back"))
            }
            // It has changed nothing.
            _ if done.has_lost() => Some(Next::End(model)),
            Operation::Abandon(reservation) => {
                let outcome = model.change(reservation, |record| record.abandon(reservation));
                ends(model, answers(&outcome.map_or("NotHeld".to_owned(), |it| format!("{it:?}"))))
            }
            Operation::Abandoned(search) => {
                let is_found = |row: &Row| !row.is_foreign && row.record.is_found_by(search, self.now);
                match (step.number, &self.row) {
                    (0, _) => {
                        model.next += 1;
                        Some(Next::Step(model, self.next))
                    }
                    // Its time is that of its beginning, when a lease or a record that ends at once had not begun.
                    (_, Some(row)) if row.leased > step.known && !row.is_foreign => {
                        let Record { procedure, request, .. } = &row.record;
                        let is_open = row.record.outcome.is_none();
                        ends(model, answers("not found") || is_open && answers(&found(procedure, request)))
                    }
                    (_, Some(row)) if is_found(row) => {
                        let Record { procedure, request, .. } = &row.record;
                        ends(model, answers(&found(procedure, request)))
                    }
                    _ => ends(model, answers("not found")),
                }
            }
            Operation::Claim(_) if step.number == 0 => {
                model.next += 1;
                Some(Next::Step(model, self.next))
            }
            Operation::Claim(claim) => {
                let outcome = model.claim(claim, resources);
                if answers(&describe(&outcome)) {
                    return Some(Next::End(model));
                }
                let mut model = self.before_what_ended_since(step.known)?;
                let outcome = model.claim(claim, resources);
                model.now = self.now;
                ends(model, answers(&describe(&outcome)))
            }
            Operation::Complete(reservation, completion) => {
                let now = self.now;
                let outcome = model.change(reservation, |record| record.complete(reservation, completion, now));
                model.date(outcome == Some(CompleteOutcome::Completed));
                ends(model, answers(&format!("{:?}", outcome.unwrap_or(CompleteOutcome::Fenced))))
            }
            Operation::Extend(reservation, lease) => {
                let now = self.now;
                let outcome = model.change(reservation, |record| record.extend(reservation, *lease, now));
                model.date(outcome == Some(ExtendOutcome::Extended));
                ends(model, answers(&outcome.map_or("NotHeld".to_owned(), |it| format!("{it:?}"))))
            }
            Operation::Go(claim, statement) => {
                let changed = model.run_as_go(claim, *statement);
                ends(model, answers(&format!("{changed:?}")))
            }
            Operation::LookUp { with_status } => self.look_up(done, *with_status, step, resources),
            Operation::Release(reservation) => {
                let outcome = model.change(reservation, |record| record.release(reservation));
                if outcome == Some(ReleaseOutcome::Released) {
                    model.row = model.row.filter(|row| !row.record.leaves_nothing());
                }
                ends(model, answers(&outcome.map_or("NotHeld".to_owned(), |it| format!("{it:?}"))))
            }
            // What it deletes of a key is not known: it may do so at any time.
            Operation::Sweep(_) => ends(model, done.answer == "swept"),
        }
    }

    /// Returns the state as it was for an operation that has read its clock and has waited for the row since: a lease or a record that ends at
    /// once had not, if it was written meanwhile.
    fn before_what_ended_since(&self, began: u64) -> Option<Self> {
        let row = self.row.as_ref()?;
        let is_written_since = row.dated > began || row.leased > began && row.record.is_live(self.now);
        is_written_since.then(|| Self { now: self.now - Duration::from_millis(1), ..self.clone() })
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn insert(&mut self, record: Record, is_foreign: bool) {
        let number = self.number();
        self.row = Some(Row { number, record, is_foreign, leased: number, dated: number });
    }

    fn unlock(&mut self, claim: &Claim) {
        let token = claim.reservation.token;
        self.transactions.remove(&token);
        self.lock = self.lock.filter(|it| *it != token);
    }

    /// Changes the record if the reservation is that of a call of ours.
    fn change<T>(&mut self, reservation: &Reservation, change: impl FnOnce(&mut Record) -> T) -> Option<T> {
        let number = self.number();
        let row = self.row.as_mut().filter(|row| !row.is_foreign && row.record.token == reservation.token)?;
        row.leased = number;
        Some(change(&mut row.record))
    }

    /// Notes whether the last change has set when the row expires.
    fn date(&mut self, is_set: bool) {
        self.row.iter_mut().filter(|_| is_set).for_each(|row| row.dated = row.leased);
    }

    /// Decides about a row that has not expired.
    fn look(&self, row: &Row, claim: &Claim, resources: &[(Resource, Option<OutboxStatus>)]) -> Look {
        let Row { record, is_foreign, .. } = row;
        let is_own = !is_foreign && record.token == claim.reservation.token && record.outcome.is_none();
        if let Some(mismatch) = claim.mismatch(&record.procedure, Some(&record.request)).filter(|_| !is_own) {
            return Look::Refused(ClaimOutcome::Mismatch(mismatch));
        }
        if let Some((response, resource)) = &record.outcome {
            let resource = resource.as_ref().map(|resource| resource.id.clone());
            let id = resource
                .as_ref()
                .filter(|_| claim.resource_type.is_some() && !matches!(response, StoredResponse::Error(_)));
            let status = id.and_then(|id| resources.iter().find(|(it, _)| it.id == *id)).and_then(|(_, it)| *it);
            let expires_in = record.expires.saturating_duration_since(self.now);
            let replay = Replay { response: response.clone(), resource, status: Ok(status), expires_in };
            return Look::Refused(ClaimOutcome::Replay(replay));
        }
        let on_lease_ended = match claim.on_foreign_reservation {
            _ if !is_foreign => return record.claimed(claim, self.now),
            ForeignPolicy::InProgress => {
                let lease_left = record.expires.saturating_duration_since(self.now);
                return Look::Refused(ClaimOutcome::InFlight { lease_left });
            }
            ForeignPolicy::Reconcile => LeasePolicy::Reconcile,
            ForeignPolicy::Rerun => LeasePolicy::Rerun,
            other => panic!("an unknown policy: {other:?}"),
        };
        // It has the lease of the claim, from its creation.
        let mut record = record.clone();
        record.lease_expires = Some(self.now + claim.lease);
        record.claimed(&Claim { on_lease_ended, ..claim.clone() }, self.now)
    }

    fn claim(&mut self, claim: &Claim, resources: &[(Resource, Option<OutboxStatus>)]) -> ClaimOutcome {
        let (now, number) = (self.now, self.number());
        let look = match self.row.as_ref().filter(|row| row.record.is_live(now)) {
            None => Look::Absent,
            Some(row) => self.look(row, claim, resources),
        };
        match (look, &mut self.row) {
            (Look::Refused(outcome), _) => return outcome,
            (Look::Held { attempts }, Some(row)) => {
                row.record.renew(claim.lease, now);
                row.leased = number;
                return if attempts == 1 { ClaimOutcome::Acquired } else { ClaimOutcome::TakenOver };
            }
            (Look::TakeOver, Some(row)) => {
                row.record.take_over(claim, now);
                (row.is_foreign, row.leased, row.dated) = (false, number, number);
                return ClaimOutcome::TakenOver;
            }
            _ => self.insert(Record::reserved(claim, now), false),
        }
        ClaimOutcome::Acquired
    }

    /// Takes the lock, decides, and lets go of the lock if the key is refused.
    fn begin(
        mut self,
        done: &Done,
        claim: &Claim,
        step: Step,
        resources: &[(Resource, Option<OutboxStatus>)],
    ) -> Option<Next> {
        if step.number == 0 {
            let is_free = self.lock.is_none();
            if is_free {
                self.lock = Some(claim.reservation.token);
            }
            return Some(Next::Step(self, is_free.into()));
        }
        let is_held = step.known == 1;
        if step.number == 2 {
            self.unlock(claim);
            return Some(Next::End(self));
        }
        let refused = |model: Self| Some(if is_held { Next::Step(model, 1) } else { Next::End(model) });
        if done.has_lost() {
            return refused(self);
        }
        let row = self.row.as_ref().filter(|row| row.record.is_live(self.now));
        let look = row.map_or(Look::Absent, |row| self.look(row, claim, resources));
        let lasts = |row: &Row| {
            let lease = match (row.is_foreign, claim.on_foreign_reservation) {
                (false, _) => row.record.lease_left(self.now),
                (true, ForeignPolicy::InProgress) => row.record.expires.saturating_duration_since(self.now),
                (true, _) => claim.lease,
            };
            row.record.outcome.is_some() || !lease.is_zero()
        };
        // Whatever its request is: the transaction has none. But a look, which takes no lock, compares with that of the row.
        if !is_held && !row.is_some_and(lasts) {
            let outcome = ClaimOutcome::InFlight { lease_left: IDLE };
            let differs = matches!(&look, Look::Refused(it @ ClaimOutcome::Mismatch(_)) if done.answer == describe(it));
            return if differs || done.answer == describe(&outcome) { refused(self) } else { None };
        }
        let taken_over = match look {
            Look::Refused(outcome) => return if done.answer == describe(&outcome) { refused(self) } else { None },
            Look::Absent => false,
            _ => true,
        };
        let seen = self.row.as_ref().map(|row| (row.number, row.record.token));
        self.transactions.insert(claim.reservation.token, Seen { nothing: seen.is_none(), row: seen });
        (done.answer == format!("open {taken_over}")).then_some(Next::End(self))
    }

    /// Writes the record, and lets go of the lock.
    fn commit(mut self, done: &Done, claim: &Claim, completion: Option<&Completion>, step: Step) -> Option<Next> {
        if done.has_lost() || step.number == 1 && done.answer == "Committed" {
            self.unlock(claim);
            return Some(Next::End(self));
        }
        if step.number == 1 {
            // An INSERT has failed, and a look, which is later, finds no other call.
            let is_free = self.lock.is_none() && self.row.as_ref().is_none_or(|row| !row.record.is_live(self.now));
            return is_free.then_some(Next::End(self));
        }
        let Some(completion) = completion else {
            self.unlock(claim);
            return (done.answer == "Committed").then_some(Next::End(self));
        };
        let seen = self.transactions.get(&claim.reservation.token).cloned().expect("it is open");
        let may_replace = |row: &Row| {
            seen.row == Some((row.number, row.record.token))
                && (!row.record.is_live(self.now)
                    || row.record.outcome.is_none() && matches!(self.look(row, claim, &[]), Look::TakeOver))
        };
        if self.row.as_ref().is_none_or(may_replace) {
            self.insert(Record::completed(claim, completion.clone(), self.now), false);
            return (done.answer == "Committed").then_some(Next::Step(self, 0));
        }
        self.unlock(claim);
        match done.answer.as_str() {
            "Superseded" => Some(Next::End(self)),
            "error Refused" if seen.nothing => Some(Next::Step(self, 0)),
            _ => None,
        }
    }

    fn run_as_go(&mut self, claim: &Claim, statement: GoStatement) -> Option<bool> {
        let has_response = |row: &Row| {
            row.record.outcome.as_ref().is_some_and(|(response, _)| !matches!(response, StoredResponse::Error(_)))
        };
        if statement == GoStatement::Reserve {
            let is_free = self.row.is_none();
            if is_free {
                let mut record = Record::reserved(claim, self.now);
                record.lease_expires = None;
                record.request = RequestHashes::from(*record.request.canonical());
                self.insert(record, true);
            }
            return Some(is_free);
        }
        let Some(row) = self.row.as_mut().filter(|row| !has_response(row)) else { return Some(false) };
        match statement {
            GoStatement::Delete => self.row = None,
            // A row has one outcome.
            _ if row.record.unknown || row.record.outcome.is_some() => return None,
            _ => row.record.outcome = Some((StoredResponse::message("go"), None)),
        }
        Some(true)
    }

    /// Reads the row, then the lock, then the row again.
    fn look_up(
        &self,
        done: &Done,
        with_status: bool,
        step: Step,
        resources: &[(Resource, Option<OutboxStatus>)],
    ) -> Option<Next> {
        let is_live = |row: &&Row| row.record.is_live(self.now);
        let lease = |row: &Row| match row.is_foreign {
            false => row.record.lease_left(self.now),
            true => row.record.expires.saturating_duration_since(self.now),
        };
        let live = self.row.as_ref().filter(is_live);
        let is_held = step.known == 1;
        let state = match (live, &self.row) {
            (Some(row), _) => match &row.record.outcome {
                Some((StoredResponse::Error(_), _)) => "Failed",
                Some(_) => "Completed",
                None if is_held || !lease(row).is_zero() => "Running",
                None => "Unknown",
            },
            _ if is_held => "Running",
            (None, Some(_)) => "Expired",
            (None, None) => "Absent",
        };
        let is_decided = live.is_some() && state != "Unknown";
        match step.number {
            0 if !is_decided => return Some(Next::Step(self.clone(), 0)),
            1 => return Some(Next::Step(self.clone(), self.lock.is_some().into())),
            _ => {}
        }
        // Of a transaction that took no earlier call over, only the beginning is known.
        let known = self.row.as_ref().filter(|row| is_live(row) || state != "Running").map(|row| &row.record);
        let resource = match known.and_then(|record| record.outcome.as_ref()) {
            Some((StoredResponse::Error(_), _)) | None => None,
            Some((_, resource)) => resource.clone().filter(|_| state == "Completed"),
        };
        let of = resource.as_ref().filter(|_| with_status);
        let status = of.and_then(|of| resources.iter().find(|(it, _)| it == of)).and_then(|(_, it)| *it);
        let procedure = known.map(|record| &*record.procedure);
        let times = [known.and_then(|record| record.completed).is_some(), known.is_some()];
        let answer = record_found(state, procedure, resource.as_ref(), &Ok(status), times);
        (done.answer == answer).then(|| Next::End(self.clone()))
    }
}

/// Describes what a look-up has found. The last two say whether the time of the outcome and that of the end are known.
pub(super) fn record_found(
    state: &str,
    procedure: Option<&str>,
    resource: Option<&Resource>,
    status: &Result<Option<OutboxStatus>, StatusError>,
    times: [bool; 2],
) -> String {
    format!("{state} {procedure:?} {resource:?} {status:?} {times:?}")
}

/// Describes a reservation that a search has found.
pub(super) fn found(procedure: &str, request: &RequestHashes) -> String {
    format!("found {procedure} {:?}", [Some(request.canonical()), request.as_arrived()])
}
