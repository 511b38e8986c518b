//! A database that is unreachable, slow, or back again.

use tonic_idempotency::store::{ClaimOutcome, CompleteOutcome, PostgresStore, Store, StoreErrorKind};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::record::{acquire, again, claim, completion, patient};

#[tokio::test]
async fn reports_that_nothing_was_done_if_there_is_no_connection() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    proxy.cut();
    let store = PostgresStore::new(pool, organization::resource_types());
    let error = store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect_err("no connection");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Unreachable, false));
}

#[tokio::test]
async fn uses_a_new_connection_if_the_old_ones_are_gone() {
    let database = Database::new().await;
    let store = database.store();
    let first = claim(Uuid::new_v4(), Uuid::new_v4());
    acquire(&store, &first).await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await
        .expect("all connections end");
    let outcome = store.complete(&first.reservation, &completion("done")).await.expect("the store answers");
    assert_eq!(outcome, CompleteOutcome::Completed);
}

#[tokio::test]
async fn works_again_once_the_database_is_back() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = patient(pool);
    let first = claim(Uuid::new_v4(), Uuid::new_v4());
    acquire(&store, &first).await;
    proxy.cut();
    store.claim(&again(&first)).await.expect_err("no connection");
    proxy.mend();
    let outcome = store.claim(&again(&first)).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

#[tokio::test]
async fn reports_an_unknown_state_as_corrupt() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "DO $$ BEGIN
                 EXECUTE replace(
                     pg_get_functiondef('tenant.idempotency_claim'::regproc), '''acquired''', '''conquered''');
             END $$",
        )
        .await
        .expect("another version of the function");
    let error = database.store().claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect_err("an unknown state");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
}

/// A claim, a completion, a replay with its status: one round trip each.
#[tokio::test]
async fn takes_one_round_trip_for_each_operation() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let store = patient(pool.clone());
    let resource = database.project(None).await;
    drop(pool.get().await.expect("a connection"));
    let first = claim(Uuid::new_v4(), Uuid::new_v4());
    let other = claim(Uuid::new_v4(), Uuid::new_v4());

    let mut before = proxy.round_trips();
    let mut trips = || {
        let now = proxy.round_trips();
        now - std::mem::replace(&mut before, now)
    };
    acquire(&store, &first).await;
    assert_eq!(trips(), 1, "claim");
    let completion = tonic_idempotency::store::Completion { resource: Some(resource), ..completion("done") };
    store.complete(&first.reservation, &completion).await.expect("the store answers");
    assert_eq!(trips(), 1, "complete");
    store.claim(&again(&first)).await.expect("the store answers");
    assert_eq!(trips(), 1, "replay");
    acquire(&store, &other).await;
    store.release(&other.reservation).await.expect("the store answers");
    assert_eq!(trips(), 2, "claim and release");
}
