//! The statements of transactional mode: `V4__transactional.sql`, `take.sql` and `record.sql`.

use std::time::Duration;

use tonic_idempotency::store::{Claim, Completion, Reservation, memory_transitions::Record};

use super::{
    error::SqlError,
    reserved::{foreign_lease, found},
    row::Row,
    state::{State, Stop, id},
    stored_row::StoredRow,
    transaction::Change,
};

impl State {
    /// `take.sql`
    pub(super) fn take(
        &mut self,
        session: u64,
        reservation: &Reservation,
        idle: f64,
        until: f64,
        is_free: bool,
    ) -> Vec<Row> {
        let id = id(reservation);
        self.work(session).token = Some(reservation.token);
        self.limit_idle(session, idle);
        let is_held = self.clock() <= until && self.try_lock(session, id);
        let is_free = is_held && (is_free || self.visible(session, id).is_none());
        vec![self.who(session).with("is_free", is_free)]
    }

    /// Returns the server process and the beginning of the transaction.
    pub(super) fn who(&mut self, session: u64) -> Row {
        let begun = self.begun(session);
        let begun = self.clock_at(begun);
        Row::default().with("pid", self.session(session).process).with("begun", begun)
    }

    /// `tenant.idempotency_limit_idle`
    pub(super) fn limit_idle(&mut self, session: u64, idle: f64) {
        self.work(session).idle = Some(Duration::from_secs_f64(idle.clamp(0.001, 2_147_483.647)));
    }

    /// `tenant.idempotency_begin`
    pub(super) fn begin(&mut self, session: u64, claim: &Claim, idle: f64, until: f64) -> Vec<Row> {
        let (id, now) = (id(&claim.reservation), self.now());
        // A look takes no lock. `None`: too late.
        let is_held = match until {
            f64::NEG_INFINITY => Some(self.lock_holder(session, id).is_none()),
            _ => (self.clock() <= until).then(|| self.try_lock(session, id)),
        };
        let lease = foreign_lease(claim);
        let row = self.visible(session, id).cloned();
        let state = row.as_ref().map(|row| row.state(Some(claim.reservation.token), lease, now));
        let is_undecided = matches!(state, None | Some("expired" | "unknown" | "abandoned"));
        let (state, replaces) = match (state, &row) {
            _ if is_undecided && is_held.is_none() => ("late", false),
            _ if is_undecided && is_held == Some(false) => ("running", false),
            (None, _) => ("acquired", false),
            (Some("expired"), _) => ("acquired", true),
            (Some("abandoned" | "unknown"), Some(row)) if row.may_be_taken_over(claim, now) => ("taken_over", true),
            (Some(state), _) => (state, false),
        };
        if matches!(state, "acquired" | "taken_over") {
            self.limit_idle(session, idle);
            let work = self.work(session);
            work.token = Some(claim.reservation.token);
            work.seen = row.as_ref().filter(|_| replaces).map(|row| row.version());
        }
        let who = self.who(session);
        let mut answer = match &row {
            Some(row) if state != "running" => self.recorded(row, state, lease, claim.resource_type.as_deref(), now),
            _ => found(row.as_ref(), state),
        };
        if state == "running" {
            // For as long as the other transaction may be idle.
            answer = answer.with("lease_left_ms", (1000.0 * idle) as i64);
        }
        vec![answer.with_all(who)]
    }

    /// `record.sql`
    pub(super) fn record(&mut self, session: u64, claim: &Claim, completion: &Completion) -> Result<Vec<Row>, Stop> {
        if self.insert_record(session, claim, completion)? { Ok(Vec::new()) } else { Err(SqlError::UNIQUE.into()) }
    }

    /// `tenant.idempotency_commit`
    pub(super) fn commit_record(
        &mut self,
        session: u64,
        claim: &Claim,
        completion: &Completion,
    ) -> Result<Vec<Row>, Stop> {
        let (id, seen) = (id(&claim.reservation), self.work(session).seen);
        if self.insert_record(session, claim, completion)? {
            return Ok(Vec::new());
        }
        let clock_now = self.now();
        let progress = self.progress(session);
        if progress.change.is_none_or(|(_, change)| change != Change::Delete) {
            (progress.time, progress.change) = (clock_now, Some((None, Change::Delete)));
        }
        let now = progress.time;
        let row = self.visible(session, id).filter(|row| Some(row.version()) == seen);
        let is_ended = |row: &&_| {
            let row: &StoredRow = row;
            let is_reserved = row.record.outcome.is_none() && row.lease_left(foreign_lease(claim), now).is_zero();
            !row.record.is_live(now) || is_reserved && row.may_be_taken_over(claim, now)
        };
        if row.filter(is_ended).is_none() {
            return Err(SqlError::SUPERSEDED.into());
        }
        self.write(session, id, None)?;
        self.insert_record(session, claim, completion)?;
        Ok(Vec::new())
    }

    /// Inserts the record of the transaction. Returns whether the key had no row.
    fn insert_record(&mut self, session: u64, claim: &Claim, completion: &Completion) -> Result<bool, Stop> {
        if self.work(session).token != Some(claim.reservation.token) {
            return Err(SqlError::ENDED_BY_HANDLER.into());
        }
        let (id, now, created) = (id(&claim.reservation), self.time(session), self.begun(session));
        if self.visible(session, id).is_some() {
            return Ok(false);
        }
        let mut record = Record::completed(claim, completion.clone(), now);
        record.created = created;
        self.insert(session, id, record)?;
        Ok(true)
    }

    /// `tenant.idempotency_committed`
    pub(super) fn committed(&mut self, session: u64, reservation: &Reservation) -> Vec<Row> {
        let id = id(reservation);
        let has_ended = self.try_lock(session, id);
        let row = self.visible(session, id).filter(|row| row.record.token == reservation.token);
        let committed = row.is_some_and(|row| row.record.outcome.is_some());
        // "No" waits for the disk.
        self.work(session).has_message = !committed && has_ended;
        vec![Row::default().with("committed", (committed || has_ended).then_some(committed))]
    }
}
