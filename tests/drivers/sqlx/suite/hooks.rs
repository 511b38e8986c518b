//! Hooks of the pool.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use driver_suite::{all_are_back, patient};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tonic_idempotency::store::Store as _;
use tonic_idempotency_sqlx::{Sqlx, SqlxStore};
use tonic_idempotency_tests::Database;

use crate::stack::SqlxStack;

/// Each time, and not otherwise.
#[tokio::test]
async fn run_before_a_connection_is_taken_if_that_is_asked_for() {
    let database = Database::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let pool = PgPoolOptions::new()
        .before_acquire(move |_, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(true) })
        })
        .connect_with(database.url().parse::<PgConnectOptions>().expect("a URL"))
        .await
        .expect("a pool");
    all_are_back::<SqlxStack>(&pool).await;
    let before = runs.load(Ordering::SeqCst);
    patient::<SqlxStack>(pool.clone()).sweep(1).await.expect("the store answers");
    all_are_back::<SqlxStack>(&pool).await;
    assert_eq!(runs.load(Ordering::SeqCst), before);
    let hooked = SqlxStore::new(Sqlx::from(pool).run_before_acquire(), organization::resource_types());
    hooked.sweep(1).await.expect("the store answers");
    assert_eq!(runs.load(Ordering::SeqCst), before + 1);
}
