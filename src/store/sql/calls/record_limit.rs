//! The limit of the records that one user may have in the table.
//!
//! The database gives this store an allowance: a number of records that calls of a user may make (`tenant.idempotency_allow`). The
//! allowances of all stores and the existing records together never exceed the limit.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{self, Instant},
};
use uuid::Uuid;

use crate::{
    caller::OwnerId,
    store::{
        StoreError, StoreErrorKind,
        sql::{
            connections::Connections,
            driver::ConnectionPool,
            statements::{column, corrupt},
        },
    },
};

/// How long an allowance admits calls. In the database it is valid for longer, so that it covers an operation that begins at
/// the last moment, and its COMMIT.
const VALIDITY: Duration = Duration::from_secs(10);
const COMMIT: Duration = Duration::from_secs(10);

/// The maximum number of recent users in each of the two generations. Users with calls in flight are remembered in any case.
const REMEMBERED: usize = 10_000;

const NO_LIMIT: u64 = u64::MAX;

/// The limit of a store. Clones share it, with its allowances.
#[derive(Clone, Debug, Default)]
pub(in crate::store::sql) struct RecordLimit {
    users: Arc<Users>,
}

/// The decision of the limits about a call.
#[derive(Debug)]
pub(in crate::store::sql) enum RecordAdmission {
    /// It may run.
    Admitted(AdmittedCall),
    /// Its user is at the limit: it may not make a record.
    Full,
}

impl RecordLimit {
    /// At least one; `None` for no limit.
    pub(in crate::store::sql) fn set_records(&self, records: Option<u64>) {
        self.users.max_records.store(records.map_or(NO_LIMIT, |records| records.max(1)), Ordering::Relaxed);
    }

    pub(in crate::store::sql) fn are_on(&self) -> bool {
        self.records() != NO_LIMIT
    }

    fn records(&self) -> u64 {
        self.users.max_records.load(Ordering::Relaxed)
    }

    /// Decides about a call of this user that may make a record. Asks the database if there is no allowance left for it; other calls of
    /// the user wait for the answer meanwhile.
    pub(in crate::store::sql) async fn admit<D: ConnectionPool>(
        &self,
        connections: &Connections<D>,
        owner: OwnerId,
    ) -> Result<RecordAdmission, StoreError> {
        if !self.are_on() {
            return Ok(RecordAdmission::Admitted(AdmittedCall::without_record()));
        }
        let user = self.users.get(owner);
        if let Some(decided) = self.decide(&user) {
            return Ok(decided);
        }
        // Not an error of a store that cannot be asked, after which some policies would run the call unprotected.
        let deadline = connections.deadline();
        let Ok(_one_at_a_time) = time::timeout_at(deadline, user.asking.lock()).await else {
            return Err(StoreErrorKind::Overloaded.into());
        };
        loop {
            if let Some(decided) = self.decide(&user) {
                return Ok(decided);
            }
            if Instant::now() >= deadline {
                return Err(StoreErrorKind::Overloaded.into());
            }
            self.ask(connections, owner, &user).await?;
        }
    }

    /// Renews the allowance of a transactional call until it ends: such a call makes its record only when it commits.
    pub(in crate::store::sql) fn keep<D: ConnectionPool>(
        &self,
        connections: &Connections<D>,
        owner: OwnerId,
        admitted: &mut AdmittedCall,
    ) {
        let (Some(user), Ok(runtime)) = (admitted.user.clone(), Handle::try_current()) else { return };
        let (limits, connections) = (self.clone(), connections.clone());
        admitted.keeping = Some(AllowanceTask(runtime.spawn(async move {
            loop {
                time::sleep(VALIDITY).await;
                let one_at_a_time = user.asking.lock().await;
                if let Err(error) = limits.ask(&connections, owner, &user).await {
                    tracing::debug!(%error, "cannot renew the allowance of an open transaction; trying again");
                }
                drop(one_at_a_time);
            }
        })));
    }

    /// Replaces the allowance, and gives its unused part back.
    async fn ask<D: ConnectionPool>(
        &self,
        connections: &Connections<D>,
        owner: OwnerId,
        user: &User,
    ) -> Result<(), StoreError> {
        let told = UsageReport::by(user);
        let asked = Instant::now();
        let valid = VALIDITY + connections.timeout_of_operations() + COMMIT;
        let answer = connections
            .call_aside(
                &connections.sql().allow,
                &[
                    (*owner.as_uuid()).into(),
                    self.users.server.into(),
                    number(self.records()).into(),
                    number(told.in_flight).into(),
                    number(told.records).into(),
                    valid.as_secs_f64().into(),
                ],
            )
            .await;
        let allowed = answer.and_then(|row| {
            let number = |name| column::<i64>(&row, name).and_then(|number| u64::try_from(number).map_err(corrupt));
            let wait = Duration::try_from_secs_f64(column(&row, "wait")?).map_err(corrupt)?;
            Ok((number("records")?, wait))
        });
        let (records, wait) = allowed?;
        told.was_heard();
        let mut known = user.known();
        known.left += records;
        known.valid_until = Some(asked + VALIDITY);
        known.full_until = (records == 0).then(|| Instant::now() + wait);
        Ok(())
    }

    /// Returns `None` if the database is to be asked first.
    fn decide(&self, user: &Arc<User>) -> Option<RecordAdmission> {
        let mut known = user.known();
        let now = Instant::now();
        if known.full_until.is_some_and(|until| now < until) {
            return Some(RecordAdmission::Full);
        }
        let is_valid = known.valid_until.is_some_and(|until| now < until);
        if !is_valid || known.left == 0 {
            return None;
        }
        known.left -= 1;
        known.in_flight += 1;
        drop(known);
        Some(RecordAdmission::Admitted(AdmittedCall { user: Some(Arc::clone(user)), keeping: None }))
    }
}

/// Converts a number to a `bigint`, at most its maximum.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A call that may make a record. It counts as one in flight until this is dropped, and as a record then.
#[derive(Debug)]
pub(in crate::store::sql) struct AdmittedCall {
    user: Option<Arc<User>>,
    keeping: Option<AllowanceTask>,
}

impl AdmittedCall {
    /// Admits a call that adds no record.
    pub(in crate::store::sql) fn without_record() -> Self {
        Self { user: None, keeping: None }
    }

    /// Says that the call has made no record.
    pub(in crate::store::sql) fn made_none(mut self) {
        if let Some(user) = self.user.take() {
            let mut known = user.known();
            known.in_flight -= 1;
            known.left += 1;
        }
    }
}

impl Drop for AdmittedCall {
    fn drop(&mut self) {
        if let Some(user) = &self.user {
            let mut known = user.known();
            known.in_flight -= 1;
            known.records += 1;
        }
    }
}

/// A task that keeps an allowance until this is dropped.
#[derive(Debug)]
struct AllowanceTask(JoinHandle<()>);

impl Drop for AllowanceTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A user, as this process knows it.
#[derive(Debug, Default)]
struct User {
    known: Mutex<UserState>,
    /// Held while the database is asked.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct UserState {
    /// Calls that have been admitted and have not ended.
    in_flight: u64,
    /// Records that were made since the database was told.
    records: u64,
    /// The rest of the allowance, and the time until which it admits calls.
    left: u64,
    valid_until: Option<Instant>,
    /// Until when the user is refused.
    full_until: Option<Instant>,
}

/// The counts that are reported to the database. Unless it has certainly received them, they are reported again: it may then
/// count too much, never too little.
struct UsageReport<'a> {
    user: &'a User,
    in_flight: u64,
    records: u64,
}

impl<'a> UsageReport<'a> {
    /// Gives the allowance back: no call is admitted until the database has granted a new one.
    fn by(user: &'a User) -> Self {
        let mut known = user.known();
        known.left = 0;
        Self { user, in_flight: known.in_flight, records: std::mem::take(&mut known.records) }
    }

    fn was_heard(mut self) {
        self.records = 0;
    }
}

impl Drop for UsageReport<'_> {
    fn drop(&mut self) {
        let mut known = self.user.known();
        known.records += self.records;
    }
}

impl User {
    fn known(&self) -> MutexGuard<'_, UserState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The users that have called last.
#[derive(Debug)]
struct Users {
    /// The limit of each, or `NO_LIMIT`.
    max_records: AtomicU64,
    /// The current generation, and the one before.
    remembered: Mutex<[HashMap<OwnerId, Arc<User>>; 2]>,
    /// The id by which the database knows this store.
    server: Uuid,
}

impl Default for Users {
    fn default() -> Self {
        Self { max_records: AtomicU64::new(NO_LIMIT), remembered: Mutex::default(), server: Uuid::new_v4() }
    }
}

impl Users {
    fn get(&self, owner: OwnerId) -> Arc<User> {
        let mut users = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let [now, before] = &mut *users;
        if let Some(user) = now.get(&owner) {
            return Arc::clone(user);
        }
        let user = before.remove(&owner).unwrap_or_default();
        if now.len() >= REMEMBERED {
            // A user with other references has calls in flight.
            before.retain(|_, user| Arc::strong_count(user) > 1);
            before.extend(now.drain());
        }
        now.insert(owner, Arc::clone(&user));
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> OwnerId {
        OwnerId::new(Uuid::new_v4())
    }

    fn limited(records: u64) -> RecordLimit {
        let limits = RecordLimit::default();
        limits.set_records(Some(records));
        limits
    }

    fn allowed(limits: &RecordLimit, records: u64) -> Arc<User> {
        let user = limits.users.get(owner());
        let mut known = user.known();
        known.left = records;
        known.valid_until = Some(Instant::now() + VALIDITY);
        drop(known);
        user
    }

    /// Admits calls until the database is to be asked. Returns their number.
    fn admitted(limits: &RecordLimit, user: &Arc<User>) -> u64 {
        let mut calls = 0;
        while let Some(RecordAdmission::Admitted(_)) = limits.decide(user) {
            calls += 1;
        }
        calls
    }

    #[tokio::test(start_paused = true)]
    async fn admits_as_many_calls_as_were_allowed_while_that_is_valid() {
        let limits = limited(1_000);
        assert_eq!(admitted(&limits, &limits.users.get(owner())), 0, "nothing was allowed");
        let user = allowed(&limits, 7);
        assert_eq!(admitted(&limits, &user), 7);
        assert_eq!(UsageReport::by(&user).records, 7);
        let user = allowed(&limits, 7);
        time::advance(VALIDITY).await;
        assert_eq!(admitted(&limits, &user), 0);
    }

    #[test]
    fn tells_of_calls_in_flight_and_admits_none_until_it_is_answered() {
        let limits = limited(1_000);
        let user = allowed(&limits, 9);
        let in_flight: Vec<_> = (0..5).map(|_| limits.decide(&user).expect("an allowance")).collect();
        let told = UsageReport::by(&user);
        assert_eq!((told.in_flight, told.records), (5, 0));
        assert!(limits.decide(&user).is_none());
        drop(in_flight);
        let also_told = UsageReport::by(&user);
        assert_eq!(also_told.records, 5);
        also_told.was_heard();
        assert_eq!(UsageReport::by(&user).records, 0);
    }

    /// Otherwise a caller who leaves while the database is asked would make room.
    #[test]
    fn tells_again_what_may_not_have_been_heard() {
        let limits = limited(1_000);
        let user = allowed(&limits, 3);
        admitted(&limits, &user);
        limits.users.get(owner());
        for _ in 0..2 {
            assert_eq!(UsageReport::by(&user).records, 3);
        }
    }

    #[test]
    fn takes_back_what_made_no_record() {
        let limits = limited(200);
        let user = allowed(&limits, 1);
        for _ in 0..10 {
            match limits.decide(&user) {
                Some(RecordAdmission::Admitted(call)) => call.made_none(),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_a_full_user_until_the_next_question() {
        let limits = limited(200);
        let user = limits.users.get(owner());
        user.known().full_until = Some(Instant::now() + VALIDITY);
        assert!(matches!(limits.decide(&user), Some(RecordAdmission::Full)));
        time::advance(VALIDITY).await;
        assert!(limits.decide(&user).is_none());
    }

    #[test]
    fn remembers_a_bounded_number_of_users_and_those_with_calls_in_flight() {
        const MANY: u64 = 1_000_000;
        let limits = limited(100);
        let (idle, calls) = (owner(), owner());
        let in_flight = limits.users.get(calls);
        for remembered in [true, false] {
            limits.users.get(idle).known().records = MANY;
            in_flight.known().records = MANY;
            for _ in 0..if remembered { REMEMBERED } else { 3 * REMEMBERED } {
                limits.users.get(owner());
            }
            assert_eq!(limits.users.get(idle).known().records == MANY, remembered);
            assert_eq!(limits.users.get(calls).known().records, MANY);
        }
        assert!(limits.users.remembered.lock().expect("no panic").iter().all(|part| part.len() <= REMEMBERED + 1));
    }
}
