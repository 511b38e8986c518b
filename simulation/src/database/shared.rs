//! The statements that calls share: `V5__shared.sql`.

use std::time::Duration;

use bytes::Bytes;
use tonic_idempotency::store::{Claim, CompleteOutcome, Completion, Reservation, memory_transitions::Record};
use uuid::Uuid;

use super::{
    reserved::found,
    row::Row,
    state::{State, Stop, id},
    transaction::Change,
};

impl State {
    /// `tenant.idempotency_look`
    pub(super) fn look(&mut self, session: u64, looks: &[(Reservation, Option<String>)]) -> Vec<Row> {
        let now = self.now();
        let age = now.saturating_duration_since(self.begun(session)).as_secs_f64();
        let is_standby = self.session(session).is_standby;
        let rows = looks.iter().zip(1_i64..).map(|((reservation, resource_type), item)| {
            let row = self.visible(session, id(reservation));
            let lease = Some(Duration::ZERO);
            let answer = match row {
                _ if is_standby => Row::default().with("state", None::<&str>),
                Some(row) => {
                    let state = row.state(Some(reservation.token), lease, now);
                    self.recorded(row, state, lease, resource_type.as_deref(), now)
                }
                None => Row::default().with("state", "absent"),
            };
            answer.with("item", item).with("token", reservation.token).with("age", age)
        });
        rows.collect()
    }

    /// `tenant.idempotency_write_many`: row by row, in the order of owners and keys. It holds the first rows while it waits for another.
    pub(super) fn write_many(
        &mut self,
        session: u64,
        claims: &[Claim],
        is_asynchronous: bool,
        until: f64,
        completions: &[(Reservation, Completion)],
    ) -> Result<Vec<Row>, Stop> {
        let began = self.progress(session).began;
        let clock = self.clock_at(began);
        let mut completions: Vec<_> = completions.iter().collect();
        completions.sort_by_key(|(reservation, _)| id(reservation));
        let mut claims: Vec<_> = claims.iter().collect();
        claims.sort_by_key(|claim| id(&claim.reservation));
        for (reservation, completion) in completions.iter().skip(self.progress(session).rows) {
            let outcome = self.complete_row(session, reservation, completion)?;
            let progress = self.progress(session);
            progress.rows += 1;
            if outcome == CompleteOutcome::Completed {
                progress.completed.push(reservation.token);
            }
        }
        self.work(session).is_asynchronous = completions.is_empty() && is_asynchronous;
        let done = self.progress(session).rows - completions.len();
        if done == 0 && self.progress(session).change.is_none() {
            let now = self.now();
            let progress = self.progress(session);
            (progress.time, progress.change) = (now, Some((None, Change::Insert)));
        }
        for claim in claims.into_iter().skip(done) {
            let (id, now) = (id(&claim.reservation), self.time(session));
            if self.clock() <= until && self.visible(session, id).is_none() {
                self.insert(session, id, Record::reserved(claim, now))?;
                self.progress(session).reserved.push(claim.reservation.token);
            }
            self.progress(session).rows += 1;
        }
        let progress = self.progress(session);
        let [completed, reserved] = [&mut progress.completed, &mut progress.reserved].map(std::mem::take);
        let tokens = |tokens: Vec<Uuid>| {
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| *token.as_bytes()).collect();
            (!tokens.is_empty()).then(|| Bytes::from(bytes))
        };
        let answer = found(None, "written").with("reserved", tokens(reserved)).with("completed", tokens(completed));
        Ok(vec![answer.with("clock", clock)])
    }
}
