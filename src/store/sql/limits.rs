//! Limits of what one user may have in the table.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{self, Instant};

use super::{
    connection::Connections,
    driver::Driver,
    query::only_row,
    row::{column, corrupt},
};
use crate::{
    caller::OwnerId,
    store::{Completion, StoreError, StoreErrorKind, StoredMessage, StoredResponse},
};

/// A user's records are counted anew after each such part of a limit that this process has added: with ten servers, a user has at most
/// 5 % more than the limit.
const PARTS: u64 = 200;

/// How long a user who is at a limit is refused before the records are counted again. A count that takes longer than a twentieth of it
/// is valid for twenty times as long.
const VALIDITY: Duration = Duration::from_secs(1);
const VALIDITY_PER_COUNT: u32 = 20;

/// How many users are remembered, twice: those that have called last, and those with calls in flight.
const REMEMBERED: usize = 10_000;

/// The limits of a store. Clones share what they know of the users.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    records: Option<u64>,
    bytes: Option<u64>,
    users: Arc<Users>,
}

/// What the limits say about a call.
#[derive(Debug)]
pub(super) enum Admission {
    /// It may run.
    Admitted(Admitted),
    /// Its user has as much as one user may have: it may not make a record.
    Full,
}

impl Limits {
    /// At least one.
    pub(super) fn max_records(self, records: u64) -> Self {
        Self { records: Some(records.max(1)), ..self }
    }

    /// At least one.
    pub(super) fn max_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes.max(1)), ..self }
    }

    pub(super) fn are_on(&self) -> bool {
        self.records.is_some() || self.bytes.is_some()
    }

    /// Decides about a call of this user that may make a record. Counts the user's records if this process has added a part of a limit
    /// since it did so last; other calls of the user wait for the count meanwhile.
    pub(super) async fn admit<D: Driver>(
        &self,
        connections: &Connections<D>,
        owner: OwnerId,
    ) -> Result<Admission, StoreError> {
        if !self.are_on() {
            return Ok(Admission::Admitted(Admitted(None)));
        }
        let user = self.user(owner);
        if let Some(decided) = self.decide(&user) {
            return Ok(decided);
        }
        // Never as if the store could not be asked: the call would be run unprotected by some policies.
        let Ok(_one_at_a_time) = time::timeout_at(connections.deadline(), user.counting.lock()).await else {
            return Err(StoreErrorKind::Overloaded.into());
        };
        if let Some(decided) = self.decide(&user) {
            return Ok(decided);
        }
        let begun = Instant::now();
        // The count may not see their records.
        let in_flight = user.known().in_flight;
        let most = self.records.unwrap_or(i64::MAX.unsigned_abs());
        let rows = connections
            .read(
                &connections.sql().usage,
                &[
                    (*owner.as_uuid()).into(),
                    i64::try_from(most).unwrap_or(i64::MAX).into(),
                    self.bytes.is_some().into(),
                ],
            )
            .await?;
        let row = only_row(rows).map_err(corrupt)?;
        let number = |name| column::<i64>(&row, name).and_then(|number| u64::try_from(number).map_err(corrupt));
        let is_full = reaches(number("records")? + in_flight, self.records) || reaches(number("bytes")?, self.bytes);
        user.counted(is_full.then(|| Instant::now() + VALIDITY.max(begun.elapsed() * VALIDITY_PER_COUNT)));
        // Counted a moment ago: this call is the first since.
        Ok(self.decide(&user).unwrap_or_else(|| Admission::Admitted(Admitted::new(user.clone()))))
    }

    /// Says what the record of a call of this user has come to.
    pub(super) fn recorded(&self, owner: OwnerId, completion: &Completion) {
        if self.bytes.is_some() {
            let size = size(&completion.response);
            self.users.largest.fetch_max(size, Ordering::Relaxed);
            self.user(owner).known().bytes += size;
        }
    }

    /// Returns what is known of a user. One who is not remembered is taken to have added any share of a part, and a record: so even of
    /// users who are forgotten after each call, calls are counted as often as they add a part.
    fn user(&self, owner: OwnerId) -> Arc<User> {
        let added =
            |limit: Option<u64>, record: u64| limit.map_or(0, |limit| record + fastrand::u64(..part(limit).max(1)));
        let largest = self.users.largest.load(Ordering::Relaxed);
        self.users.get(owner, || Known {
            records: added(self.records, 1),
            bytes: added(self.bytes, largest),
            ..Known::default()
        })
    }

    /// Returns `None` if the user's records are to be counted first.
    fn decide(&self, user: &Arc<User>) -> Option<Admission> {
        let mut known = user.known();
        match known.full_until {
            Some(until) if Instant::now() < until => return Some(Admission::Full),
            Some(_) => return None,
            None => {}
        }
        if is_due(known.records, self.records) || is_due(known.bytes, self.bytes) {
            return None;
        }
        known.records += 1;
        known.in_flight += 1;
        drop(known);
        Some(Admission::Admitted(Admitted(Some(Arc::clone(user)))))
    }
}

fn reaches(number: u64, limit: Option<u64>) -> bool {
    limit.is_some_and(|limit| number >= limit)
}

/// Returns whether as much has been added that the records are to be counted.
fn is_due(added: u64, limit: Option<u64>) -> bool {
    limit.is_some_and(|limit| added >= part(limit))
}

/// How much is added between two counts.
fn part(limit: u64) -> u64 {
    limit / PARTS
}

/// A call that may make a record. It counts as one in flight until this is dropped: a count may not have seen it.
#[derive(Debug)]
pub(super) struct Admitted(Option<Arc<User>>);

impl Admitted {
    /// Of a call that adds no record.
    pub(super) fn without_record() -> Self {
        Self(None)
    }

    fn new(user: Arc<User>) -> Self {
        let mut known = user.known();
        known.records += 1;
        known.in_flight += 1;
        drop(known);
        Self(Some(user))
    }

    /// Says that the call has made no record.
    pub(super) fn made_none(self) {
        if let Some(user) = &self.0 {
            let mut known = user.known();
            known.records = known.records.saturating_sub(1);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(user) = &self.0 {
            user.known().in_flight -= 1;
        }
    }
}

fn size(response: &StoredResponse) -> u64 {
    let bytes = match response {
        StoredResponse::Error(error) => error.len(),
        StoredResponse::Message(StoredMessage { message, metadata }) => {
            message.len() + metadata.as_ref().map_or(0, |metadata| metadata.len())
        }
        StoredResponse::NotStored => 0,
    };
    bytes as u64
}

/// A user, as this process knows it.
#[derive(Debug)]
struct User {
    known: Mutex<Known>,
    /// Held while the records are counted.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// Calls that have been admitted and have not ended.
    in_flight: u64,
    /// Records and bytes that this process has added since the last count, or is taken to have.
    records: u64,
    bytes: u64,
    /// Until when the user is refused.
    full_until: Option<Instant>,
}

impl User {
    fn new(known: Known) -> Self {
        Self { known: Mutex::new(known), counting: tokio::sync::Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self, full_until: Option<Instant>) {
        let mut known = self.known();
        // The records of calls in flight may not have been counted.
        known.records = known.in_flight;
        known.bytes = 0;
        known.full_until = full_until;
    }
}

/// The users that have called last.
#[derive(Debug, Default)]
struct Users {
    /// Those of now, and those of before.
    remembered: Mutex<[HashMap<OwnerId, Arc<User>>; 2]>,
    /// The bytes of the largest record of all users.
    largest: AtomicU64,
}

impl Users {
    /// Returns a user; one who is not remembered, as `new` says.
    fn get(&self, owner: OwnerId, new: impl FnOnce() -> Known) -> Arc<User> {
        let mut users = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let [now, before] = &mut *users;
        if let Some(user) = now.get(&owner) {
            return Arc::clone(user);
        }
        let user = before.remove(&owner).unwrap_or_else(|| Arc::new(User::new(new())));
        if now.len() >= REMEMBERED {
            // What is in use has calls in flight.
            before.retain(|_, user| Arc::strong_count(user) > 1);
            before.extend(now.drain());
        }
        now.insert(owner, Arc::clone(&user));
        user
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn owner() -> OwnerId {
        OwnerId::new(Uuid::new_v4())
    }

    /// Admits calls until a count is due. Returns their number.
    fn admitted(limits: &Limits, user: &Arc<User>) -> u64 {
        let mut calls = 0;
        while let Some(Admission::Admitted(_)) = limits.decide(user) {
            calls += 1;
        }
        calls
    }

    #[test]
    fn counts_after_each_part_of_a_limit() {
        for (limit, part) in [(1, 0), (199, 0), (200, 1), (10_000, 50), (1_000_000, 5_000)] {
            let limits = Limits::default().max_records(limit);
            let user = limits.user(owner());
            assert!(admitted(&limits, &user) <= part, "{limit}");
            for _ in 0..2 {
                user.counted(None);
                assert_eq!(admitted(&limits, &user), part, "{limit}");
            }
        }
    }

    #[test]
    fn counts_the_bytes_that_were_recorded() {
        let limits = Limits::default().max_bytes(2_000);
        let owner = owner();
        let user = limits.user(owner);
        user.counted(None);
        let completion = |size| Completion {
            response: StoredResponse::message(vec![0; size]),
            resource: None,
            retention: Duration::from_secs(1),
        };
        limits.recorded(owner, &completion(9));
        assert!(matches!(limits.decide(&user), Some(Admission::Admitted(_))));
        limits.recorded(owner, &completion(1));
        assert!(limits.decide(&user).is_none());
    }

    /// A count may not have seen them.
    #[test]
    fn takes_calls_in_flight_for_new() {
        let limits = Limits::default().max_records(1_000);
        let user = limits.user(owner());
        user.counted(None);
        let in_flight: Vec<_> = (0..5).map(|_| limits.decide(&user).expect("no count")).collect();
        user.counted(None);
        assert!(limits.decide(&user).is_none());
        drop(in_flight);
        user.counted(None);
        assert_eq!(admitted(&limits, &user), 5);
    }

    #[test]
    fn takes_back_what_made_no_record() {
        let limits = Limits::default().max_records(200);
        let user = limits.user(owner());
        user.counted(None);
        for _ in 0..10 {
            match limits.decide(&user) {
                Some(Admission::Admitted(call)) => call.made_none(),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_a_full_user_until_the_next_count() {
        let limits = Limits::default().max_records(200);
        let user = limits.user(owner());
        user.counted(Some(Instant::now() + VALIDITY));
        assert!(matches!(limits.decide(&user), Some(Admission::Full)));
        tokio::time::advance(VALIDITY).await;
        assert!(limits.decide(&user).is_none());
    }

    /// Otherwise a user could fill the table by calls that are far between.
    #[test]
    fn counts_calls_of_forgotten_users_as_often_as_they_add_a_part() {
        let records = Limits::default().max_records(100_000);
        let bytes = Limits::default().max_bytes(1_000_000);
        bytes.users.largest.store(10, Ordering::Relaxed);
        for limits in [records, bytes] {
            let due = (0..50_000).filter(|_| limits.decide(&limits.user(owner())).is_none()).count();
            // Of 500 calls with a record, or with 10 bytes of 5,000, one on average.
            assert!((40..200).contains(&due), "{due} counts");
        }
    }

    #[test]
    fn remembers_a_bounded_number_of_users_and_those_with_calls_in_flight() {
        const MANY: u64 = 1_000_000;
        let limits = Limits::default().max_records(100);
        let (idle, calls) = (owner(), owner());
        let in_flight = limits.user(calls);
        for remembered in [true, false] {
            limits.user(idle).known().records = MANY;
            in_flight.known().records = MANY;
            for _ in 0..if remembered { REMEMBERED } else { 3 * REMEMBERED } {
                limits.user(owner());
            }
            assert_eq!(limits.user(idle).known().records == MANY, remembered);
            assert_eq!(limits.user(calls).known().records, MANY);
        }
        assert!(limits.users.remembered.lock().expect("no panic").iter().all(|part| part.len() <= REMEMBERED + 1));
    }
}
