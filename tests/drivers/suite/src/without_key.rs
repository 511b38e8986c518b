//! Calls to a transactional procedure without a key or without a user: the layer only provides the transaction that the handler
//! needs.

use tonic_idempotency::{
    policy::{KeyFormat, ProcedureBuilder, UserPolicy},
    rejection::Reason,
};
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::{Call, Service, Stack, all_have_ended, open_transactions, pool, reason, rows};

pub async fn a_call_that_succeeds_is_committed_and_not_recorded<S: Stack>() {
    let database = Database::new().await;
    let service = Service::inserting::<S>(&database, pool::<S>(&database, 2)).await;
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

pub async fn a_client_that_disconnects_cancels_its_call<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (service, _gate) = Service::gated::<S>(&database, pool::<S>(&database, 1), |it| it).await;
    let call = service.with_key(None).spawn("wait");
    until("the handler runs", async || service.runs() == 1 && open_transactions(&owner).await == 1).await;
    call.abort();
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    // The pool's only connection is free.
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
