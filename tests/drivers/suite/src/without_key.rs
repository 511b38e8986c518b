//! Calls to a transactional procedure without a key or without a user: the layer only provides the transaction that the handler
//! needs.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::{KeyFormat, ProcedureBuilder, UserPolicy},
    rejection::Reason,
};
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::{Call, Service, Stack, all_have_ended, assert_clean, open_transactions, pool, reason, rows};

pub async fn a_call_that_succeeds_is_committed_and_not_recorded<S: Stack>() {
    let database = Database::new().await;
    let service =
        Service::new(&database, pool::<S>(&database, 2), |call: Call<S>| async move { call.insert().await }).await;
    let without_key = service.with_key(None);
    for calls in 1..=2 {
        let seen = without_key.create("shop").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, false));
        assert_eq!(rows(&database.owner().await).await, [calls, calls, 0]);
    }
}

/// The name stands for a key: the service's message has no field that is one.
pub async fn a_call_whose_key_field_is_empty_is_committed_and_not_recorded<S: Stack>() {
    let database = Database::new().await;
    let describe = |procedure: ProcedureBuilder| procedure.key_field("name").key_format(KeyFormat::Any);
    let script = |call: Call<S>| async move { call.insert().await };
    let service = Service::with(&database, pool::<S>(&database, 2), describe, script).await.with_key(None);
    for calls in 1..=2 {
        let seen = service.create("").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, false));
        assert_eq!(rows(&database.owner().await).await, [calls, calls, 0]);
    }
    for replayed in [false, true] {
        assert_eq!(service.create("order-17").await.expect("a call").replayed, replayed);
        assert_eq!(rows(&database.owner().await).await, [3, 3, 1]);
    }
}

pub async fn a_call_that_fails_or_panics_leaves_nothing<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        call.insert().await?;
        match call.name.as_str() {
            "panic" => panic!("as it was told"),
            _ => Err(Status::not_found("not now")),
        }
    })
    .await;
    assert_eq!(service.with_key(None).create("fail").await.expect_err("it fails").code(), Code::NotFound);
    // The panic ends the stream.
    service.with_key(None).create("panic").await.expect_err("it panics");
    all_have_ended(&owner).await;
    assert_clean::<S>(&pool).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

pub async fn a_client_that_disconnects_cancels_its_call<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let service = Service::new(&database, pool::<S>(&database, 1), move |call: Call<S>| {
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
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    // The pool's only connection is free.
    gate.add_permits(1);
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

pub async fn a_call_without_a_user_has_a_transaction_without_one<S: Stack>() {
    let database = Database::new().await;
    for policy in [UserPolicy::PassThrough, UserPolicy::Reject] {
        let describe = |procedure: ProcedureBuilder| procedure.on_no_user(policy);
        let service = Service::with(&database, pool::<S>(&database, 2), describe, |call: Call<S>| async move {
            assert_eq!(call.select("SELECT authn.current_user_id()::text").await?, None);
            Ok(Uuid::nil())
        })
        .await
        .with_user(None);
        service.with_key(None).create("shop").await.expect("a call without a key");
        let with_key = service.create("shop").await;
        match policy {
            UserPolicy::PassThrough => assert!(with_key.is_ok(), "{with_key:?}"),
            _ => assert_eq!(reason(with_key), Reason::NoUser),
        }
        let runs = 1 + usize::from(policy == UserPolicy::PassThrough);
        assert_eq!((service.runs(), rows(&database.owner().await).await), (runs, [0, 0, 0]));
    }
}
