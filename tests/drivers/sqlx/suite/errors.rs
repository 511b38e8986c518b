//! What the store makes of the errors of sqlx.

use std::time::Duration;

use scratch_postgres::{PgBouncer, skip};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use tonic_idempotency::store::{ClaimOutcome, SetupProblem, Store as _, StoreErrorKind, VerifyError};
use tonic_idempotency_sqlx::SqlxStore;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::harness::{assert_clean, claim, options, patient, pool, pool_through, pool_through_proxy};

async fn kind(options: PgConnectOptions) -> StoreErrorKind {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let store = SqlxStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(2));
    store.sweep(1).await.expect_err("no connection").kind()
}

#[tokio::test]
async fn of_a_login_are_told_apart() {
    let database = Database::new().await;
    let url = options(database.url());
    assert_eq!(kind(url.clone().database("nowhere")).await, StoreErrorKind::Refused);
    assert_eq!(kind(url.clone().username("nobody")).await, StoreErrorKind::Refused);
    assert_eq!(kind(url.clone().ssl_mode(PgSslMode::Require)).await, StoreErrorKind::Refused);
    // Even though the pool of one connection counts the one that it tries to make.
    assert_eq!(kind(url.clone().port(1)).await, StoreErrorKind::Unreachable);
}

/// The server forgets the statements that the connection has prepared.
#[tokio::test]
async fn of_stale_statements_are_not_seen() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool(&database, 1);
    let store = patient(pool.clone());
    for _ in 0..2 {
        let claimed = store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect("the store answers");
        assert!(matches!(claimed, ClaimOutcome::Acquired));
    }
    let mut connection = pool.acquire().await.expect("a connection");
    sqlx::Executor::execute(&mut *connection, "DEALLOCATE ALL").await.expect("they are forgotten");
    drop(connection);
    let claimed = store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect("the store answers");
    assert!(matches!(claimed, ClaimOutcome::Acquired));
    let records = owner.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("the count");
    assert_eq!(records.get::<_, i64>(0), 3);
}

/// An operation is repeated on another connection.
#[tokio::test]
async fn of_lost_connections_are_not_seen() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy(&database, 4).await;
    let store = patient(pool.clone());
    store.sweep(1).await.expect("the store answers");
    crate::harness::all_are_back(&pool).await;
    proxy.cut_connections();
    let claimed = store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect("the store answers");
    assert!(matches!(claimed, ClaimOutcome::Acquired));
}

/// A connection that falls silent does not hold up the operation.
#[tokio::test]
async fn of_silent_connections_are_not_seen() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy(&database, 4).await;
    let store = patient(pool.clone()).timeout(Duration::from_secs(10));
    store.sweep(1).await.expect("the store answers");
    crate::harness::all_are_back(&pool).await;
    proxy.silence_connections();
    let claimed = store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect("the store answers");
    assert!(matches!(claimed, ClaimOutcome::Acquired));
}

/// Each statement of the check is one of several on its connection, with a transaction that sqlx does not know of.
#[tokio::test]
async fn of_the_set_up_are_found_by_verify() {
    let database = Database::new().await;
    // These connections log in as a superuser.
    let found = patient(pool(&database, 1)).verify().await.expect_err("an exempt role");
    let VerifyError::Problems(problems) = found else { panic!("{found:?}") };
    assert!(matches!(&problems[..], [SetupProblem::ExemptRole { .. }]), "{problems:?}");

    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    let (bouncer, _) = database.pool_through_bouncer(1).await;
    let pool = pool_through(&bouncer, 1);
    patient(pool.clone()).verify().await.expect("nothing is wrong");
    assert_clean(&pool).await;
}
