//! The metric of the number of calls in a shared statement. It has a recorder of its own, on one thread.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, Snapshotter};
use tokio::{
    runtime::Builder,
    task::{JoinSet, yield_now},
};
use tonic_idempotency::store::{ClaimOutcome, PostgresStore, Store as _};
use tonic_idempotency_tests::{Database, Lines, Proxy};
use tracing::level_filters::LevelFilter;
use uuid::Uuid;

use crate::{claim, recorded};

/// The values since the last snapshot, by kind.
fn seen(snapshotter: &Snapshotter) -> BTreeMap<String, Vec<f64>> {
    let mut seen = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if let ("idempotency_statement_calls", DebugValue::Histogram(values)) = (key.key().name(), value) {
            let kind = key.key().labels().find(|label| label.key() == "kind").expect("a kind").value().to_owned();
            seen.insert(kind, values.into_iter().map(f64::from).collect());
        }
    }
    seen
}

/// Makes five claims while the connection is held, so that all but the first go together.
async fn five_at_once(proxy: &Proxy, store: &PostgresStore) {
    proxy.hold();
    let mut claims = JoinSet::new();
    for _ in 0..5 {
        let store = store.clone();
        claims.spawn(
            async move { store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect("the store answers") },
        );
    }
    for _ in 0..4 {
        yield_now().await;
    }
    proxy.release();
    let outcomes = claims.join_all().await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, ClaimOutcome::Acquired)), "{outcomes:?}");
}

async fn claims_at_once(snapshotter: &Snapshotter) {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = PostgresStore::new(pool, organization::resource_types()).max_batch(64);
    store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect("the store answers");
    assert_eq!(seen(snapshotter), BTreeMap::from([("write".to_owned(), vec![1.0])]));

    five_at_once(&proxy, &store).await;
    assert_eq!(seen(snapshotter), BTreeMap::from([("write".to_owned(), vec![1.0, 4.0])]));
}

/// How many statements were refused since the last snapshot, by kind.
fn refused(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    let mut refused = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if let ("idempotency_shared_statement_failures_total", DebugValue::Counter(statements)) =
            (key.key().name(), value)
        {
            let kind = key.key().labels().find(|label| label.key() == "kind").expect("a kind").value().to_owned();
            refused.insert(kind, statements);
        }
    }
    refused
}

/// The calls go alone. Each failure is counted, and one line is logged.
async fn claims_without_their_statement(snapshotter: &Snapshotter) {
    let database = Database::new().await;
    database.owner().await.batch_execute("DROP PROCEDURE tenant.idempotency_write_many").await.expect("it goes");
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = PostgresStore::new(pool, organization::resource_types()).max_batch(64);
    let (lines, _guard) = Lines::collect(LevelFilter::INFO);
    for round in 0..2 {
        five_at_once(&proxy, &store).await;
        assert!(refused(snapshotter)["write"] > 0);
        let said = lines.take().matches("the database is not set up for statements of several calls").count();
        assert_eq!(said, usize::from(round == 0));
    }
}

#[test]
fn show_how_many_calls_went_together() {
    recorded(&mut Builder::new_current_thread(), claims_at_once);
}

#[test]
fn are_counted_and_said_if_the_database_has_them_not() {
    recorded(&mut Builder::new_current_thread(), claims_without_their_statement);
}
