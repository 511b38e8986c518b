//! The sample with sealed records.

use std::{env, time::Duration};

use organization::{ApiDatabase, Driver, Guard, Overrides};
use tonic::service::Routes;
use tonic_idempotency::{
    layer::IdempotencyLayerBuilder,
    seal::{Key, StaticKeys},
};

use crate::{clock, error::Error};

/// The environment variable that has the servers seal their records, if it is not empty.
pub(crate) const SEALS: &str = "SEALS";

/// The ids of the keys. All servers know all of them, and each is the current one for a second, in turn.
const IDS: [&str; 3] = ["1", "2", "3"];

/// Whether the records are sealed.
pub(super) fn is_wanted() -> bool {
    env::var(SEALS).is_ok_and(|seals| !seals.is_empty())
}

/// The sample on another driver, whose records are sealed.
#[derive(Debug)]
pub(super) struct Sealed<D> {
    inner: D,
    keys: StaticKeys,
}

impl<D: Driver> Driver for Sealed<D> {
    type Store = D::Store;
    type InvitesReconciler = D::InvitesReconciler;

    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error> {
        let [current, next, last] = IDS.map(|id| Key::new(id, &id.repeat(32).into_bytes()));
        let keys = StaticKeys::new(current?);
        keys.add(next?)?;
        keys.add(last?)?;
        tokio::spawn(rotate(keys.clone()));
        Ok(Self { inner: D::new(database, commit_delay)?, keys })
    }

    async fn store(&self, max_batch: Option<u16>) -> Result<D::Store, Error> {
        self.inner.store(max_batch).await
    }

    fn complete(&self, builder: IdempotencyLayerBuilder, overrides: Overrides) -> IdempotencyLayerBuilder {
        self.inner.complete(builder, overrides).seal(self.keys.clone())
    }

    fn invites_reconciler(&self) -> D::InvitesReconciler {
        self.inner.invites_reconciler()
    }

    fn services(&self, guard: &Guard) -> Routes {
        self.inner.services(guard)
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// Rotates the keys, each second of the clock that all servers share.
async fn rotate(keys: StaticKeys) {
    loop {
        let now = clock::now();
        let id = IDS[usize::try_from(now.as_secs()).unwrap_or_default() % IDS.len()];
        // It is one of them.
        let _ = keys.rotate_to(id);
        tokio::time::sleep(Duration::from_secs(1) - Duration::from_nanos(now.subsec_nanos().into())).await;
    }
}
