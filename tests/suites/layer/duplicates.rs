//! Many duplicates of one call at once.

use std::time::Duration;

use tokio::task::JoinSet;
use tonic::Code;
use tonic_idempotency::store::{MemoryStore, PostgresStore, ResourceType, ResourceTypes, Store};
use tonic_idempotency_tests::{Database, until};

use crate::harness::Shop;

/// The resource types of the tests' service. The database has no columns for them and needs none.
pub(crate) fn resource_types() -> ResourceTypes {
    ResourceTypes::new(["order", "payment"].map(|name| resource_type(name).tracked()))
}

/// A type whose status is not tracked.
pub(crate) fn resource_type(name: &str) -> ResourceType {
    ResourceType::new(name, format!("{name}_id"), "shop.orders")
}

async fn one_of_fifty_runs(store: impl Store) {
    let shop = Shop::on(store).await;
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let client = shop.with_key(shop.key);
        calls.spawn(async move { client.create("hold").await });
    }
    until("one handler runs", async || shop.handler.started() == 1).await;
    // All other calls end before the handler does.
    let mut outcomes = Vec::new();
    while outcomes.len() < 49 {
        outcomes.push(calls.join_next().await.expect("a call").expect("no panic"));
    }
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(|status| status.code() == Code::Aborted)));
    shop.handler.open(1);
    let first = calls.join_next().await.expect("a call").expect("no panic").expect("the first call");
    assert_eq!(shop.create("hold").await.expect("a replay").message, first.message);
    assert_eq!((shop.handler.started(), shop.handler.finished()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_fifty_runs_in_memory() {
    one_of_fifty_runs(MemoryStore::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_fifty_runs_on_postgres() {
    let database = Database::new().await;
    one_of_fifty_runs(PostgresStore::new(database.pool(8), resource_types()).timeout(Duration::from_secs(30))).await;
}
