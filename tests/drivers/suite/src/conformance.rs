//! The conformance suite of stores, with the API's own role: on a server, and behind PgBouncer.

use std::{fmt, marker::PhantomData};

use scratch_postgres::PgBouncer;
use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::{SqlStore, conformance::Harness},
};
use tonic_idempotency_tests::Database;

use crate::{Stack, bouncer_settings, patient, pool, pool_through};

/// Stores on a server.
pub struct OnAServer<S>(PhantomData<S>);

/// Stores behind PgBouncer.
pub struct BehindPgBouncer<S>(PhantomData<S>);

impl<S: Stack> Harness for OnAServer<S> {
    type Store = SqlStore<S::Driver>;
    type Fixture = Database;

    async fn store(&self) -> (Self::Store, Database) {
        let database = Database::new().await;
        (patient::<S>(pool::<S>(&database, 8)), database)
    }

    async fn resource(&self, _: &Self::Store, database: &Database, status: Option<OutboxStatus>) -> Resource {
        database.project(status).await
    }
}

impl<S: Stack> Harness for BehindPgBouncer<S> {
    type Store = SqlStore<S::Driver>;
    type Fixture = (Database, Option<PgBouncer>);

    async fn store(&self) -> (Self::Store, Self::Fixture) {
        let database = Database::new().await;
        let Some(settings) = bouncer_settings::<S>() else {
            // A case of the suite cannot be left out, so it runs without PgBouncer.
            return (patient::<S>(pool::<S>(&database, 8)), (database, None));
        };
        let bouncer = database.behind_bouncer(settings).await;
        (patient::<S>(pool_through::<S>(&bouncer, 8)), (database, Some(bouncer)))
    }

    async fn resource(&self, _: &Self::Store, (database, _): &Self::Fixture, status: Option<OutboxStatus>) -> Resource {
        database.project(status).await
    }
}

impl<S> OnAServer<S> {
    /// The harness.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S> BehindPgBouncer<S> {
    /// The harness.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S> Default for OnAServer<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Default for BehindPgBouncer<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> fmt::Debug for OnAServer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnAServer")
    }
}

impl<S> fmt::Debug for BehindPgBouncer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BehindPgBouncer")
    }
}
