//! Calls to a transactional procedure without a key or without a user: the layer only provides the transaction that the
//! handler needs.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tonic::{Code, Status};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::harness::{Call, Service, all_have_ended, open_transactions, reason, rows};

#[tokio::test]
async fn a_call_that_succeeds_is_committed_and_not_recorded() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move { call.insert().await }).await;
    let without_key = service.with_key(None);
    for calls in 1..=2 {
        let seen = without_key.create("shop").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, false));
        assert_eq!(rows(&database.owner().await).await, [calls, calls, 0]);
    }
}

#[tokio::test]
async fn a_call_that_fails_leaves_nothing() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        call.insert().await?;
        Err(Status::not_found("not now"))
    })
    .await;
    assert_eq!(service.with_key(None).create("shop").await.expect_err("it fails").code(), Code::NotFound);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// PostgreSQL answers COMMIT with success after a failed statement, but rolls back.
#[tokio::test]
async fn a_handler_that_ignores_a_failed_statement_does_not_succeed() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let project = call.insert().await?;
        call.transaction().execute("SELECT 1 / 0", &[]).await.expect_err("a division by zero");
        Ok(project)
    })
    .await;
    assert_eq!(reason(service.with_key(None).create("shop").await), Reason::NotCommitted);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_call() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let service = Service::new(&database, database.pool(1), move |call: Call| {
        let gate = Arc::clone(&waits);
        async move {
            let project = call.insert().await?;
            gate.acquire().await.expect("it is not closed").forget();
            Ok(project)
        }
    })
    .await;
    let call = service.with_key(None).spawn("shop");
    until("the handler runs", async || service.runs() == 1 && open_transactions(&owner).await == 1).await;
    call.abort();
    until("it is rolled back", async || open_transactions(&owner).await == 0).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    // The pool's only connection is free.
    gate.add_permits(1);
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

#[tokio::test]
async fn a_call_without_a_user_has_a_transaction_without_one() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let row = call.transaction().query_one("SELECT authn.current_user_id()", &[]).await?;
        assert_eq!(row.get::<_, Option<Uuid>>(0), None);
        Ok(Uuid::nil())
    })
    .await;
    for key in [service.key, None] {
        let without_user = Service { user: None, ..service.with_key(key) };
        without_user.create("shop").await.expect("a call");
    }
    assert_eq!((service.runs(), rows(&database.owner().await).await), (2, [0, 0, 0]));
}
