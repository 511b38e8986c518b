//! The statements that calls share: `V5__shared.sql`.

use std::time::Duration;

use bytes::Bytes;
use tonic_idempotency::store::{Claim, CompleteOutcome, Completion, Reservation, memory_transitions::Record};
use uuid::Uuid;

use super::{
    reserved::found,
    row::Row,
    state::{State, Stop, id},
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
            let answer = match row.filter(|_| !is_standby) {
                Some(row) => {
                    let state = row.state(Some(reservation.token), lease, now);
                    self.recorded(row, state, lease, resource_type.as_deref(), now)
                }
                None => Row::default().with("state", None::<&str>),
            };
            answer.with("item", item).with("token", reservation.token).with("age", age)
        });
        rows.collect()
    }

    /// `tenant.idempotency_write_many`
    pub(super) fn write_many(
        &mut self,
        session: u64,
        claims: &[Claim],
        is_asynchronous: bool,
        until: f64,
        completions: &[(Reservation, Completion)],
    ) -> Result<Vec<Row>, Stop> {
        let (now, clock) = (self.now(), self.clock());
        let (mut completed, mut reserved) = (Vec::new(), Vec::new());
        for (reservation, completion) in completions {
            if self.complete_row(session, reservation, completion)? == CompleteOutcome::Completed {
                completed.push(reservation.token);
            }
        }
        self.work(session).is_asynchronous = completions.is_empty() && is_asynchronous;
        for claim in claims.iter().filter(|_| clock <= until) {
            let id = id(&claim.reservation);
            if self.visible(session, id).is_none() {
                self.insert(session, id, Record::reserved(claim, now))?;
                reserved.push(claim.reservation.token);
            }
        }
        let tokens = |tokens: Vec<Uuid>| {
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| *token.as_bytes()).collect();
            (!tokens.is_empty()).then(|| Bytes::from(bytes))
        };
        let answer = found(None, "written").with("reserved", tokens(reserved)).with("completed", tokens(completed));
        Ok(vec![answer.with("clock", clock)])
    }
}
