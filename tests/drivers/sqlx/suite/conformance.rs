//! The conformance suite of stores, with the API's own role: on a server, behind PgBouncer, and with a pool that has hooks.

use scratch_postgres::{PgBouncer, skip};
use sqlx::postgres::PgPoolOptions;
use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::conformance::{Harness, conformance_tests},
};
use tonic_idempotency_sqlx::{Sqlx, SqlxStore};
use tonic_idempotency_tests::Database;

use crate::harness::{options, patient, pool, pool_through};

mod on_a_server {
    use super::*;

    struct Server;

    impl Harness for Server {
        type Store = SqlxStore;
        type Fixture = Database;

        async fn store(&self) -> (SqlxStore, Database) {
            let database = Database::new().await;
            (patient(pool(&database, 8)), database)
        }

        async fn resource(&self, _: &SqlxStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
            database.project(status).await
        }
    }

    conformance_tests!(Server);
}

mod behind_pgbouncer {
    use super::*;

    struct Bouncer;

    impl Harness for Bouncer {
        type Store = SqlxStore;
        type Fixture = (Database, Option<PgBouncer>);

        async fn store(&self) -> (SqlxStore, Self::Fixture) {
            let database = Database::new().await;
            if let Some(why) = PgBouncer::missing() {
                // A case of the suite cannot be left out, so it runs without PgBouncer.
                skip("pgbouncer", why);
                return (patient(pool(&database, 8)), (database, None));
            }
            let (bouncer, _) = database.pool_through_bouncer(1).await;
            (patient(pool_through(&bouncer, 8)), (database, Some(bouncer)))
        }

        async fn resource(
            &self,
            _: &SqlxStore,
            (database, _): &Self::Fixture,
            status: Option<OutboxStatus>,
        ) -> Resource {
            database.project(status).await
        }
    }

    conformance_tests!(Bouncer);
}

/// The hook of a pool runs each time if it is asked for, and not otherwise.
#[tokio::test]
async fn the_hook_of_a_pool_runs_if_it_is_asked_for() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    use tonic_idempotency::store::Store as _;

    let database = Database::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let pool = PgPoolOptions::new()
        .before_acquire(move |_, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(true) })
        })
        .connect_with(options(database.url()))
        .await
        .expect("a pool");
    crate::harness::all_are_back(&pool).await;
    let before = runs.load(Ordering::SeqCst);
    patient(pool.clone()).sweep(1).await.expect("the store answers");
    crate::harness::all_are_back(&pool).await;
    assert_eq!(runs.load(Ordering::SeqCst), before);
    let hooked = SqlxStore::new(Sqlx::from(pool).run_before_acquire(), organization::resource_types());
    hooked.sweep(1).await.expect("the store answers");
    assert_eq!(runs.load(Ordering::SeqCst), before + 1);
}
