//! The search for reservations whose leases ended without an outcome.

use std::collections::HashMap;

use redis::{FromRedisValue, Pipeline, Value, cmd};
use tonic_idempotency::store::{AbandonedKey, AbandonedQuery, RequestHash, RequestHashes, StoreError, StoreErrorKind};

use crate::{
    answer::NotUnderstood, command_runner::CommandRunner, connection::Primary, error::Failure, prefix::Prefix,
};

/// The number of names that a server looks at in one step. It does nothing else meanwhile: well under a millisecond.
const STEP: u32 = 1000;

/// Finds reservations whose leases ended without an outcome, the oldest first.
pub(crate) async fn abandoned(
    runner: &CommandRunner,
    prefix: &Prefix,
    search: &AbandonedQuery,
) -> Result<Vec<AbandonedKey>, StoreError> {
    // A server may return a name more than once, and two servers may both have it while a slot moves.
    let mut found = HashMap::new();
    for primary in runner.primaries().await? {
        let mut cursor = 0;
        loop {
            let (next, names) = step(runner, &primary, prefix, cursor).await?;
            let names: Vec<_> = names.into_iter().filter(|name| prefix.parse(name).is_some()).collect();
            for (name, created, key) in read(runner, &primary, prefix, names, search).await? {
                found.insert(name, (created, key));
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|(created, _)| *created);
    found.truncate(search.batch as usize);
    Ok(found.into_iter().map(|(_, key)| key).collect())
}

/// Returns the next names that a server has, and where to go on; 0 at the end.
async fn step(
    runner: &CommandRunner,
    primary: &Primary,
    prefix: &Prefix,
    cursor: u64,
) -> Result<(u64, Vec<String>), StoreError> {
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(prefix.pattern()).arg("COUNT").arg(STEP).arg("TYPE").arg("hash");
    let mut commands = Pipeline::with_capacity(1);
    commands.add_command(scan);
    let answer = runner.read(primary, &commands).await?.into_iter().next();
    answer.and_then(parsed).ok_or_else(|| corrupt("SCAN"))
}

/// Reads records, and returns those that the search finds, with the time of their creation.
async fn read(
    runner: &CommandRunner,
    primary: &Primary,
    prefix: &Prefix,
    names: Vec<String>,
    search: &AbandonedQuery,
) -> Result<Vec<(String, u64, AbandonedKey)>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut commands = Pipeline::with_capacity(names.len() + 1);
    commands.add_command(cmd("TIME"));
    for name in &names {
        let mut fields = cmd("HMGET");
        fields.arg(name).arg(&["outcome", "lease", "attempts", "created", "procedure", "canonical", "arrival"]);
        commands.add_command(fields);
    }
    let mut answers = runner.read(primary, &commands).await?.into_iter();
    let now = answers.next().and_then(parsed).map(|(seconds, micros): (u64, u64)| seconds * 1_000_000 + micros);
    let now = now.ok_or_else(|| corrupt("TIME"))?;
    let mut found = Vec::new();
    for (name, answer) in names.into_iter().zip(answers) {
        let fields: Vec<Option<Vec<u8>>> = parsed(answer).ok_or_else(|| corrupt("HMGET"))?;
        let Ok([outcome, lease, attempts, created, procedure, canonical, arrival]) = <[_; 7]>::try_from(fields) else {
            return Err(corrupt("HMGET"));
        };
        // The record is completed, or gone since its name was read.
        if outcome.is_some() || created.is_none() {
            continue;
        }
        let record = ReservationFields { lease, attempts, created, procedure, canonical, arrival };
        let reservation = record.find(now, search).map_err(|NotUnderstood| corrupt("a reservation"))?;
        if let (Some(reservation), Some((owner, key))) = (reservation, prefix.parse(&name)) {
            let FoundReservation { created, procedure, request } = reservation;
            found.push((name, created, AbandonedKey { owner, key, procedure, request }));
        }
    }
    Ok(found)
}

/// The fields of a reservation.
struct ReservationFields {
    lease: Option<Vec<u8>>,
    attempts: Option<Vec<u8>>,
    created: Option<Vec<u8>>,
    procedure: Option<Vec<u8>>,
    canonical: Option<Vec<u8>>,
    arrival: Option<Vec<u8>>,
}

impl ReservationFields {
    /// Returns what the search reports; `None` if the reservation does not match it.
    fn find(self, now: u64, search: &AbandonedQuery) -> Result<Option<FoundReservation>, NotUnderstood> {
        let created = digits(self.created)?;
        let attempts = digits(self.attempts)?;
        let lease_ends = if self.lease.is_some() { digits(self.lease)? } else { 0 };
        let procedure = String::from_utf8(self.procedure.ok_or(NotUnderstood)?)?;
        let age = u128::from(now.saturating_sub(created));
        let is_wanted = lease_ends <= now
            && attempts < u64::from(search.max_attempts)
            && search.lookback.is_none_or(|lookback| age <= lookback.as_micros())
            && search.procedures.contains(&procedure);
        if !is_wanted {
            return Ok(None);
        }
        let request =
            RequestHashes::new(hash(self.canonical.ok_or(NotUnderstood)?)?, self.arrival.map(hash).transpose()?);
        Ok(Some(FoundReservation { created, procedure, request }))
    }
}

/// A reservation that the search finds. Its time is in microseconds since the Unix epoch.
struct FoundReservation {
    created: u64,
    procedure: String,
    request: RequestHashes,
}

fn hash(bytes: Vec<u8>) -> Result<RequestHash, NotUnderstood> {
    let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| NotUnderstood)?;
    Ok(RequestHash::from(bytes))
}

fn digits(bytes: Option<Vec<u8>>) -> Result<u64, NotUnderstood> {
    Ok(String::from_utf8(bytes.ok_or(NotUnderstood)?)?.parse()?)
}

fn parsed<T: FromRedisValue>(value: Value) -> Option<T> {
    redis::from_redis_value(value).ok()
}

fn corrupt(what: &'static str) -> StoreError {
    Failure::Corrupt(what).into_error(StoreErrorKind::Corrupt, false)
}
