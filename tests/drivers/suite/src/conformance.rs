//! The conformance suite of stores, with the API's own role: on a server, and behind PgBouncer.

use std::marker::PhantomData;

use scratch_postgres::PgBouncer;
use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::{SqlStore, conformance::Harness},
};
use tonic_idempotency_tests::Database;

use crate::{Stack, bouncer_settings, patient, pool, pool_through};

/// Stores on a server, or behind a PgBouncer in front of it.
#[derive(Debug)]
pub struct Stores<S> {
    is_pooled: bool,
    of: PhantomData<S>,
}

impl<S> Stores<S> {
    /// Stores on a server.
    pub const fn on_a_server() -> Self {
        Self { is_pooled: false, of: PhantomData }
    }

    /// Stores behind PgBouncer.
    pub const fn behind_pgbouncer() -> Self {
        Self { is_pooled: true, of: PhantomData }
    }
}

impl<S: Stack> Harness for Stores<S> {
    type Store = SqlStore<S::Driver>;
    type Fixture = (Database, Option<PgBouncer>);

    async fn store(&self) -> (Self::Store, Self::Fixture) {
        let database = Database::new().await;
        // A case of the suite cannot be left out, so it runs without a PgBouncer if there is none.
        let Some(settings) = self.is_pooled.then(bouncer_settings::<S>).flatten() else {
            return (patient::<S>(pool::<S>(&database, 8)), (database, None));
        };
        let bouncer = database.behind_bouncer(settings).await;
        (patient::<S>(pool_through::<S>(&bouncer, 8)), (database, Some(bouncer)))
    }

    async fn resource(&self, _: &Self::Store, (database, _): &Self::Fixture, status: Option<OutboxStatus>) -> Resource {
        database.project(status).await
    }
}
