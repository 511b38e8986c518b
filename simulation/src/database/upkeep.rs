//! The statements that are no part of a call: those of `V8__operations.sql` and of the pack `limits.sql`.

use std::time::Duration;

use tokio::time::Instant;
use tonic_idempotency::store::{AbandonedQuery, Reservation, StoredResponse};
use uuid::Uuid;

use super::{
    row::Row,
    state::{State, id},
    statement::Allowance,
};

/// The sum of an owner whose records are not counted yet: more than any limit.
const UNKNOWN: i64 = 4_611_686_018_427_387_904;

impl State {
    /// `tenant.idempotency_look_up`
    pub(super) fn look_up(&mut self, session: u64, reservation: &Reservation, status_of: &[String]) -> Vec<Row> {
        let (id, now) = (id(reservation), self.now());
        let holder = self.lock_holder(session, id);
        let holder = holder.and_then(|holder| self.sessions.get(&holder)?.transaction.as_ref()).map(|held| held.begun);
        let row = self.visible(session, id);
        let found = row.map(|row| row.state(None, None, now));
        let state = match (found, holder) {
            (Some("completed" | "not_stored"), _) => "completed",
            (Some("failed"), _) => "failed",
            (Some("reserved"), _) | (_, Some(_)) => "running",
            (Some("abandoned" | "unknown"), None) => "unknown",
            (found, None) => found.unwrap_or("absent"),
        };
        // If a transaction has taken over no earlier call, only its beginning is known.
        let is_only_held = state == "running" && matches!(found, None | Some("expired"));
        let record = row.map(|row| &row.record).filter(|_| !is_only_held);
        let resource = record.and_then(|record| match &record.outcome {
            Some((StoredResponse::Error(_), _)) | None => None,
            Some((_, resource)) => resource.as_ref(),
        });
        let resource = resource.filter(|_| state == "completed");
        let name = resource.map(|resource| resource.resource_type.as_str());
        let text = resource.map(|resource| resource.id.to_string());
        let status = text.as_ref().filter(|_| name.is_some_and(|name| status_of.iter().any(|of| of == name)));
        let status = status.and_then(|resource| self.statuses.get(resource)).copied();
        let at = |time: Option<Instant>| time.map(|time| self.microseconds(time));
        let created = if is_only_held { holder } else { record.map(|record| record.created) };
        let answer = Row::default()
            .with("state", state)
            .with("procedure", record.map(|record| record.procedure.as_str()))
            .with("created", at(created))
            .with("completed", at(record.and_then(|record| record.completed)))
            .with("expires", at(record.map(|record| record.expires)))
            .with("resource_type", name)
            .with("resource", text.as_deref())
            .with("status", status)
            .with("status_error", None::<&str>);
        vec![answer]
    }

    /// `tenant.idempotency_microseconds`
    fn microseconds(&self, time: Instant) -> i64 {
        let now = self.now();
        let since = self.since_epoch() + self.ahead;
        let since = (since + time.saturating_duration_since(now)).saturating_sub(now.saturating_duration_since(time));
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX).min(253_402_300_799_000_000)
    }

    /// `tenant.idempotency_status`
    pub(super) fn status(&self, resource: &str) -> Vec<Row> {
        let status = self.statuses.get(resource).copied();
        vec![Row::default().with("status", status)]
    }

    /// `tenant.idempotency_sweep`. It skips rows that others have locked. The place that it returns is a hint, and is
    /// not needed here.
    pub(super) fn sweep(&mut self, session: u64, batch: usize) -> Vec<Row> {
        let now = self.now();
        let expired = self.rows.iter().filter(|(_, row)| !row.record.is_live(now));
        let mut expired: Vec<_> = expired.map(|(id, row)| (row.record.expires, *id)).collect();
        expired.sort();
        let mut deleted = 0;
        for (_, id) in expired {
            if deleted < batch && self.write(session, id, None).is_ok() {
                deleted += 1;
            }
        }
        self.work(session).is_asynchronous = true;
        let reached = (deleted == batch).then_some("1 0");
        let deleted = i64::try_from(deleted).expect("few rows");
        vec![Row::default().with("deleted", deleted).with("reached", reached)]
    }

    /// `tenant.idempotency_abandoned`. There is only one page.
    pub(super) fn abandoned(&mut self, session: u64, search: &AbandonedQuery) -> Vec<Row> {
        let now = self.now();
        let visible = self.rows.keys().filter_map(|&id| Some((id, self.visible(session, id)?)));
        let mut found: Vec<_> =
            visible.filter(|(_, row)| !row.is_foreign && row.record.is_found_by(search, now)).collect();
        found.sort_by_key(|(_, row)| row.number);
        let found = found.into_iter().take(usize::try_from(search.batch).unwrap_or(usize::MAX));
        let found = found.map(|((owner, key), row)| {
            let (request, bytes) = (&row.record.request, |bytes: &[u8]| bytes::Bytes::copy_from_slice(bytes));
            Row::default()
                .with("user_id", owner)
                .with("idempotency_key", key)
                .with("procedure", row.record.procedure.as_str())
                .with("request_hash", bytes(request.canonical().as_bytes()))
                .with("arrival_hash", request.as_arrived().map(|hash| bytes(hash.as_bytes())))
                .with("reached", None::<Uuid>)
        });
        found.collect()
    }

    /// `tenant.idempotency_allow`. It takes effect at once, even if its transaction is rolled back: then calls are
    /// counted twice until the owner's records are counted again.
    pub(super) fn allow(&mut self, asked: Allowance) -> Vec<Row> {
        let Allowance { owner, server, most, in_flight, records: made, seconds } = asked;
        let now = self.now();
        let (mut sum, mut sum_until) = self.allowances.get(&(owner, Uuid::nil())).copied().unwrap_or((UNKNOWN, None));
        let own = self.allowances.get(&(owner, server)).map_or(0, |(records, _)| *records);
        sum = sum - own + made + in_flight;
        let is_other = |id: &(Uuid, Uuid)| id.0 == owner && id.1 != Uuid::nil() && id.1 != server;
        let others = self.allowances.iter().filter(|(id, (_, until))| is_other(id) && until.is_some_and(|it| it > now));
        let (servers, of_others) =
            others.fold((0, 0), |(servers, all), (_, (records, _))| (servers + 1, all + records));
        let mut is_full = sum >= most;
        if is_full && sum_until.is_none_or(|until| until <= now) {
            self.allowances.retain(|id, (_, until)| !is_other(id) || until.is_some_and(|it| it > now));
            let used = self.rows.iter().filter(|((its, _), row)| *its == owner && row.record.is_live(now)).count();
            sum = i64::try_from(used).expect("few rows").min(most) + of_others + in_flight;
            is_full = sum >= most;
            sum_until = Some(if is_full { now + Duration::from_secs(1) } else { now });
        }
        let records = if is_full { 0 } else { ((most - sum) / (100 * (servers + 1))).max(1) };
        let wait = sum_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        self.allowances.insert((owner, Uuid::nil()), (UNKNOWN.min(sum + records), sum_until));
        let until = Some(now + Duration::from_secs_f64(seconds));
        self.allowances.insert((owner, server), (in_flight + records, until));
        vec![Row::default().with("records", records).with("wait", wait.as_secs_f64())]
    }
}
