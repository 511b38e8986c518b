//! The statements of reserved mode: `V3__reserved.sql`, and the meaning of a row, `V2__decisions.sql`.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic_idempotency::{
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{
        AbandonOutcome, Claim, CompleteOutcome, Completion, ExtendOutcome, ReleaseOutcome, Reservation, StoredMessage,
        StoredResponse,
        memory_transitions::{Look, Record},
    },
};
use uuid::Uuid;

use super::{
    error::SqlError,
    row::Row,
    state::{State, Stop, id},
    stored_row::{Id, Seen, StoredRow},
    transaction::Change,
};

impl StoredRow {
    /// `tenant.idempotency_state`
    pub(super) fn state(&self, token: Option<Uuid>, foreign_lease: Option<Duration>, now: Instant) -> &'static str {
        let record = &self.record;
        match &record.outcome {
            _ if !record.is_live(now) => "expired",
            Some((StoredResponse::NotStored | StoredResponse::Sealed(_), _)) => "not_stored",
            Some((StoredResponse::Message(_), _)) => "completed",
            Some((StoredResponse::Error(_), _)) => "failed",
            Some(_) => unreachable!("a response of no kind"),
            None if token == Some(record.token) && record.lease_expires.is_some() => {
                if record.attempts == 1 {
                    "acquired"
                } else {
                    "taken_over"
                }
            }
            None if !self.lease_left(foreign_lease, now).is_zero() => "reserved",
            None if record.unknown => "unknown",
            None => "abandoned",
        }
    }

    /// A reservation of the Go interceptor has the lease that the caller gives it, or lives until it expires: a rule that the store in
    /// memory does not have.
    pub(super) fn lease_left(&self, foreign_lease: Option<Duration>, now: Instant) -> Duration {
        match (self.is_foreign, foreign_lease) {
            (false, _) => self.record.lease_left(now),
            (true, Some(lease)) => (self.record.created + lease).saturating_duration_since(now),
            (true, None) => self.record.expires.saturating_duration_since(now),
        }
    }

    /// Returns whether a claim may take over a reservation whose state is `abandoned` or `unknown`: `tenant.idempotency_may_take_over`, of the
    /// same request.
    pub(super) fn may_be_taken_over(&self, claim: &Claim, now: Instant) -> bool {
        if claim.mismatch(&self.record.procedure, Some(&self.record.request)).is_some() {
            return false;
        }
        let look = if self.is_foreign {
            let on_lease_ended = match claim.on_foreign_reservation {
                ForeignPolicy::InProgress => LeasePolicy::Refuse,
                ForeignPolicy::Reconcile => LeasePolicy::Reconcile,
                ForeignPolicy::Rerun => LeasePolicy::Rerun,
                other => panic!("an unknown policy: {other:?}"),
            };
            let mut record = self.record.clone();
            record.lease_expires = Some(now + self.lease_left(foreign_lease(claim), now));
            record.claimed(&Claim { on_lease_ended, ..claim.clone() }, now)
        } else {
            self.record.claimed(claim, now)
        };
        matches!(look, Look::TakeOver)
    }

    pub(super) fn version(&self) -> Seen {
        (self.number, self.record.token)
    }
}

/// Returns the lease that a claim gives a reservation of the Go interceptor.
pub(super) fn foreign_lease(claim: &Claim) -> Option<Duration> {
    (claim.on_foreign_reservation != ForeignPolicy::InProgress).then_some(claim.lease)
}

impl State {
    /// `tenant.idempotency_claim`. A change that has waited is made only if its row is still as it was found, by the clock that was read then;
    /// else it begins anew.
    pub(super) fn claim(&mut self, session: u64, claim: &Claim, until: f64) -> Result<Vec<Row>, Stop> {
        if claim.effect == EffectPolicy::SameServer {
            self.work(session).is_asynchronous = true;
        }
        let (id, began) = (id(&claim.reservation), self.progress(session).began);
        let clock = self.clock_at(began);
        let answer = |row: Row| Ok(vec![row.with("clock", clock)]);
        loop {
            let now = self.time(session);
            let is_late = self.clock_at(now) > until;
            let row = self.visible(session, id).cloned();
            let state = row.as_ref().map(|row| row.state(Some(claim.reservation.token), foreign_lease(claim), now));
            let change = match (state, &row) {
                (None, _) => Some(Change::Insert),
                (Some("expired"), _) => Some(Change::Delete),
                (Some("acquired" | "taken_over"), _) => Some(Change::Renew),
                (Some("abandoned" | "unknown"), Some(row)) if row.may_be_taken_over(claim, now) => {
                    Some(Change::TakeOver)
                }
                _ => None,
            };
            let change = change.map(|change| (row.as_ref().map(|row| row.number), change));
            let clock_now = self.now();
            let progress = self.progress(session);
            if progress.change.is_some() && progress.change != change {
                (progress.change, progress.time) = (None, clock_now);
                continue;
            }
            let adds = matches!(change, Some((_, Change::Insert | Change::TakeOver)));
            if adds && is_late && progress.change.is_none() {
                return answer(found(None, "late"));
            }
            progress.change = change;
            let (change, mut state) = (change.map(|(_, change)| change), state.unwrap_or("acquired"));
            match (change, row.clone()) {
                (Some(Change::Insert), _) => self.insert(session, id, Record::reserved(claim, now))?,
                (Some(Change::Delete), _) => {
                    self.write(session, id, None)?;
                    let progress = self.progress(session);
                    (progress.change, progress.time) = (None, clock_now);
                    continue;
                }
                (Some(Change::Renew), Some(mut row)) => {
                    row.record.renew(claim.lease, now);
                    self.write(session, id, Some(row))?;
                }
                (Some(Change::TakeOver), Some(mut row)) => {
                    row.record.take_over(claim, now);
                    row.is_foreign = false;
                    self.write(session, id, Some(row))?;
                    state = "taken_over";
                }
                (_, _) => {}
            }
            // A claim that comes too late changes nothing; one that has waited fails, if it would have changed something.
            if adds && self.clock() > until {
                return Err(SqlError::TOO_LATE.into());
            }
            let Some(row) = row else { return answer(found(None, state)) };
            let recorded = self.recorded(&row, state, foreign_lease(claim), claim.resource_type.as_deref(), now);
            return answer(recorded);
        }
    }

    /// Returns what a claim finds of a row.
    pub(super) fn recorded(
        &self,
        row: &StoredRow,
        state: &'static str,
        foreign_lease: Option<Duration>,
        resource_type: Option<&str>,
        now: Instant,
    ) -> Row {
        let resource = row.record.outcome.as_ref().and_then(|(_, resource)| resource.as_ref());
        let resource = resource.map(|resource| resource.id.to_string());
        let status =
            resource.as_deref().filter(|_| matches!(state, "completed" | "not_stored") && resource_type.is_some());
        let status = status.and_then(|resource| self.statuses.get(resource)).copied();
        found(Some(row), state)
            .with("resource", resource.as_deref())
            .with("status", status)
            .with("status_error", None::<&str>)
            .with("lease_left_ms", milliseconds(row.lease_left(foreign_lease, now)))
            .with("expires_in_ms", milliseconds(row.record.expires.saturating_duration_since(now)))
    }

    /// `tenant.idempotency_extend`
    pub(super) fn extend(
        &mut self,
        session: u64,
        reservation: &Reservation,
        lease: Duration,
    ) -> Result<Vec<Row>, Stop> {
        let now = self.time(session);
        let extended = self
            .change(session, reservation, |record| record.extend(reservation, lease, now) == ExtendOutcome::Extended);
        Ok(vec![Row::default().with("extended", extended?)])
    }

    /// `tenant.idempotency_abandon`
    pub(super) fn abandon(&mut self, session: u64, reservation: &Reservation) -> Result<Vec<Row>, Stop> {
        let abandoned =
            self.change(session, reservation, |record| record.abandon(reservation) == AbandonOutcome::Abandoned);
        Ok(vec![Row::default().with("abandoned", abandoned?)])
    }

    /// `tenant.idempotency_release`. One step there, too: it locks the row first.
    pub(super) fn release(&mut self, session: u64, reservation: &Reservation) -> Result<Vec<Row>, Stop> {
        let released =
            self.change(session, reservation, |record| record.release(reservation) == ReleaseOutcome::Released)?;
        let id = id(reservation);
        if released && self.visible(session, id).is_some_and(|row| row.record.leaves_nothing()) {
            self.write(session, id, None)?;
        }
        Ok(vec![Row::default().with("released", released)])
    }

    /// `tenant.idempotency_complete`
    pub(super) fn complete(
        &mut self,
        session: u64,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<Vec<Row>, Stop> {
        let outcome = match self.complete_row(session, reservation, completion)? {
            CompleteOutcome::AlreadyCompleted => "already_completed",
            CompleteOutcome::Completed => "completed",
            CompleteOutcome::Fenced => "fenced",
            other => panic!("an unknown outcome: {other:?}"),
        };
        Ok(vec![Row::default().with("outcome", outcome)])
    }

    pub(super) fn complete_row(
        &mut self,
        session: u64,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, Stop> {
        let (now, mut outcome) = (self.time(session), CompleteOutcome::Fenced);
        self.change(session, reservation, |record| {
            let before = record.expires;
            outcome = record.complete(reservation, completion, now);
            // `expires` stays if it is nearly right, which the store in memory need not do.
            let off = before.max(record.expires) - before.min(record.expires);
            if off <= completion.retention / 100 {
                record.expires = before;
            }
            outcome == CompleteOutcome::Completed
        })?;
        Ok(outcome)
    }

    /// Changes the record of a reservation, if `change` says that it has.
    fn change(
        &mut self,
        session: u64,
        reservation: &Reservation,
        change: impl FnOnce(&mut Record) -> bool,
    ) -> Result<bool, Stop> {
        let id: Id = id(reservation);
        let Some(mut row) = self.visible(session, id).cloned() else { return Ok(false) };
        let has_changed = change(&mut row.record);
        if has_changed {
            self.write(session, id, Some(row))?;
        }
        Ok(has_changed)
    }
}

/// Returns the state of a key, and what is recorded of the call.
pub(super) fn found(row: Option<&StoredRow>, state: &'static str) -> Row {
    let record = row.map(|row| &row.record);
    let bytes = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let arrived = record.and_then(|record| record.request.as_arrived());
    let (response, metadata, error) = match record.and_then(|record| record.outcome.as_ref()) {
        Some((StoredResponse::Message(StoredMessage { message, metadata }), _)) => {
            (Some(message.clone()), metadata.clone(), None)
        }
        Some((StoredResponse::Error(error), _)) => (None, None, Some(error.clone())),
        Some((StoredResponse::NotStored, _)) => (Some(Bytes::new()), None, None),
        Some((StoredResponse::Sealed(envelope), _)) => (Some(Bytes::new()), Some(envelope.clone()), None),
        _ => (None, None, None),
    };
    Row::default()
        .with("state", state)
        .with("recorded_procedure", record.map(|record| record.procedure.as_str()))
        .with("recorded_hash", record.map(|record| bytes(record.request.canonical().as_bytes())))
        .with("recorded_arrival", arrived.map(|hash| bytes(hash.as_bytes())))
        .with("response", response)
        .with("metadata", metadata)
        .with("error", error)
}

pub(super) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
