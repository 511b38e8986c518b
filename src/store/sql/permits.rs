//! Permits for the transactions of handlers: they never take the last connections of a pool, and one user never has all of
//! them.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::{connection::quarter, driver::Driver};
use crate::{
    caller::OwnerId,
    store::{StoreError, StoreErrorKind},
    telemetry,
};

/// The permits of a pool. A call waits for one of its user's first, and so the calls of a user stand in line with those of
/// others only for as many permits as one user may have.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    all: Arc<Semaphore>,
    of_one_user: usize,
    users: Arc<Users>,
}

/// A permit to have a connection for a transaction.
#[derive(Debug)]
pub(super) struct Permit {
    _one_of_all: OwnedSemaphorePermit,
    _one_of_user: OwnedSemaphorePermit,
    _call: UserCall,
}

impl Permits {
    /// Permits for a pool that has claims, renewals and records, too: all but a quarter of its connections.
    pub(super) fn beside_claims(driver: &impl Driver) -> Self {
        Self::new(driver.max_connections().saturating_sub(quarter(driver)))
    }

    /// Permits for a pool that has transactions only.
    pub(super) fn of_all(driver: &impl Driver) -> Self {
        Self::new(driver.max_connections())
    }

    /// At least one permit.
    fn new(permits: usize) -> Self {
        let permits = permits.clamp(1, Semaphore::MAX_PERMITS);
        Self { all: Arc::new(Semaphore::new(permits)), of_one_user: (permits / 2).max(1), users: Arc::default() }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// At the deadline: [`UserLimit`](StoreErrorKind::UserLimit) if the user has as many transactions as one user may
    /// have, [`Overloaded`](StoreErrorKind::Overloaded) if all users together have as many as there may be.
    pub(super) async fn acquire(&self, owner: Option<OwnerId>, deadline: Instant) -> Result<Permit, StoreError> {
        let call = UserCall::new(&self.users, owner, self.of_one_user);
        let Some(one_of_user) = acquired(&call.permits, deadline).await else {
            return Err(refused(StoreErrorKind::UserLimit));
        };
        let Some(one_of_all) = acquired(&self.all, deadline).await else {
            return Err(refused(StoreErrorKind::Overloaded));
        };
        Ok(Permit { _one_of_all: one_of_all, _one_of_user: one_of_user, _call: call })
    }
}

async fn acquired(permits: &Arc<Semaphore>, deadline: Instant) -> Option<OwnedSemaphorePermit> {
    timeout_at(deadline, Arc::clone(permits).acquire_owned()).await.ok()?.ok()
}

fn refused(kind: StoreErrorKind) -> StoreError {
    telemetry::transaction_refused(kind.as_str());
    kind.into()
}

/// The users that have transactions, or wait for some. `None` is everybody without a user.
#[derive(Debug, Default)]
struct Users(Mutex<HashMap<Option<OwnerId>, User>>);

impl Users {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<OwnerId>, User>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct User {
    permits: Arc<Semaphore>,
    calls: usize,
}

/// A call of a user that has a transaction, or waits for one. With the last one, the user is forgotten.
#[derive(Debug)]
struct UserCall {
    permits: Arc<Semaphore>,
    owner: Option<OwnerId>,
    users: Arc<Users>,
}

impl UserCall {
    fn new(users: &Arc<Users>, owner: Option<OwnerId>, permits: usize) -> Self {
        let mut known = users.lock();
        let entry = known.entry(owner).or_insert_with(|| User { permits: Arc::new(Semaphore::new(permits)), calls: 0 });
        entry.calls += 1;
        Self { permits: Arc::clone(&entry.permits), owner, users: Arc::clone(users) }
    }
}

impl Drop for UserCall {
    fn drop(&mut self) {
        let mut users = self.users.lock();
        if let Entry::Occupied(mut owner) = users.entry(self.owner) {
            owner.get_mut().calls -= 1;
            if owner.get().calls == 0 {
                owner.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    /// A permit that is there at once.
    async fn acquire(permits: &Permits, owner: Option<OwnerId>) -> Result<Permit, StoreErrorKind> {
        permits.acquire(owner, Instant::now()).await.map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn forgets_users_without_calls() {
        let permits = Permits::new(2);
        for _ in 0..100 {
            let [owner, another] = [(); 2].map(|()| Some(OwnerId::new(Uuid::new_v4())));
            let other = None;
            let permit = acquire(&permits, owner).await.expect("a permit");
            assert_eq!(acquire(&permits, owner).await.expect_err("none left"), StoreErrorKind::UserLimit);
            let others = acquire(&permits, other).await.expect("a permit");
            assert_eq!(acquire(&permits, another).await.expect_err("none left"), StoreErrorKind::Overloaded);
            drop((permit, others));
        }
        assert!(permits.users.lock().is_empty());
    }

    #[tokio::test]
    async fn a_call_that_gives_up_waiting_leaves_nothing() {
        let permits = Permits::new(1);
        let permit = acquire(&permits, None).await.expect("a permit");
        let waiting = permits.acquire(Some(OwnerId::new(Uuid::new_v4())), Instant::now() + Duration::from_secs(60));
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
        assert_eq!(permits.users.lock().len(), 1);
        drop(permit);
        drop(acquire(&permits, None).await.expect("a permit"));
        assert!(permits.users.lock().is_empty());
    }
}
