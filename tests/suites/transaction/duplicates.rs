//! Concurrent calls with one key.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::JoinSet};
use tonic::Code;
use tonic_idempotency::{
    policy::DisconnectPolicy,
    rejection::{Mismatch, Reason},
};
use tonic_idempotency_tests::{Database, until};
use tonic_types::StatusExt as _;
use uuid::Uuid;

use crate::harness::{Call, Service, open_transactions, reason, rows};

/// A handler that writes, and then waits for a permit.
async fn held(database: &Database, pool: usize) -> (Service, Arc<Semaphore>) {
    held_with(database, pool, DisconnectPolicy::Finish).await
}

async fn held_with(database: &Database, pool: usize, on_disconnect: DisconnectPolicy) -> (Service, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let script = move |call: Call| {
        let gate = Arc::clone(&waits);
        async move {
            let project = call.insert().await?;
            gate.acquire().await.expect("it is not closed").forget();
            Ok(project)
        }
    };
    let describe = |procedure: tonic_idempotency::policy::ProcedureBuilder| procedure.on_disconnect(on_disconnect);
    (Service::with(database, database.pool(pool), describe, script).await, gate)
}

#[tokio::test]
async fn a_duplicate_is_refused_at_once_while_the_first_runs() {
    let database = Database::new().await;
    let (service, gate) = held(&database, 2).await;
    let first = service.spawn("shop");
    until("the handler runs", async || service.runs() == 1).await;
    for _ in 0..3 {
        let status = service.create("shop").await.expect_err("in progress");
        assert_eq!((status.code(), Reason::of(&status)), (Code::Aborted, Some(Reason::InProgress)));
        assert!(status.get_details_retry_info().is_some());
    }
    gate.add_permits(1);
    let first = first.await.expect("no panic").expect("the first call");
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed, service.runs()), (first.project, true, 1));
}

#[tokio::test]
async fn another_request_or_procedure_is_refused_while_the_first_runs() {
    let database = Database::new().await;
    let (service, gate) = held(&database, 4).await;
    let first = service.spawn("shop");
    until("the handler runs", async || service.runs() == 1).await;

    let status = service.create("another shop").await.expect_err("another request");
    assert_eq!(Reason::of(&status), Some(Reason::KeyReused));
    let info = status.get_details_error_info().expect("an ErrorInfo");
    assert_eq!(info.metadata.get("mismatch").map(String::as_str), Some("request"));

    // Another procedure that shares the table, in a server of its own.
    let other = tonic_idempotency::store::Claim {
        procedure: "/organization.v1.ClusterService/CreateCluster".to_owned(),
        ..claim_of(&service)
    };
    let store = database.store();
    let begun = tonic_idempotency::store::Store::begin(&store, &other, Default::default()).await;
    match begun.expect("the store answers") {
        tonic_idempotency::store::BeginOutcome::Refused(tonic_idempotency::store::ClaimOutcome::Mismatch(mismatch)) => {
            assert_eq!(mismatch, Mismatch::Procedure);
        }
        other => panic!("expected a mismatch, got {other:?}"),
    }
    gate.add_permits(1);
    first.await.expect("no panic").expect("the first call");
}

fn claim_of(service: &Service) -> tonic_idempotency::store::Claim {
    use protobuf_canonical::RequestHash;
    use tonic_idempotency::{KeyId, OwnerId, store};
    let owner = OwnerId::new(service.user.expect("a user"));
    let key = KeyId::new(service.key.expect("a key"));
    store::Claim {
        reservation: store::Reservation::new(owner, key),
        session: store::CallSession::default(),
        procedure: crate::harness::CREATE_PROJECT.to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: std::time::Duration::from_secs(60),
        retention: std::time::Duration::from_secs(60),
        on_lease_ended: tonic_idempotency::policy::LeasePolicy::Rerun,
        on_foreign_reservation: tonic_idempotency::policy::ForeignPolicy::InProgress,
        effect: tonic_idempotency::policy::EffectPolicy::Anywhere,
        resource_type: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_at_once_runs() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(8), |call: Call| async move { call.insert().await }).await;
    for round in 1..=4 {
        let service = service.with_key(Some(Uuid::new_v4()));
        let mut calls = JoinSet::new();
        for _ in 0..24 {
            let service = service.clone();
            calls.spawn(async move { service.create("shop").await });
        }
        let answers = calls.join_all().await;
        let first = answers.iter().flatten().filter(|seen| !seen.replayed).count();
        assert_eq!(first, 1, "{answers:?}");
        for answer in answers {
            if let Err(status) = answer {
                assert_eq!(Reason::of(&status), Some(Reason::InProgress));
            }
        }
        assert_eq!(rows(&database.owner().await).await, [round, round, round]);
    }
}

/// Replays do not wait for each other, although the transaction of each ends after its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_many_at_once_are_replayed_after_the_first() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(8), |call: Call| async move { call.insert().await }).await;
    let first = service.create("shop").await.expect("the first call");
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let service = service.clone();
        calls.spawn(async move {
            for _ in 0..8 {
                let replay = service.create("shop").await.expect("a replay");
                assert_eq!((replay.project, replay.replayed), (first.project, true));
                assert_eq!(reason(service.create("another shop").await), Reason::KeyReused);
            }
        });
    }
    calls.join_all().await;
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn a_client_that_disconnects_does_not_cancel_its_call() {
    let database = Database::new().await;
    let (service, gate) = held(&database, 2).await;
    let first = service.spawn("shop");
    until("the handler runs", async || service.runs() == 1).await;
    first.abort();
    gate.add_permits(1);
    until("it is committed", async || service.create("shop").await.is_ok()).await;
    assert_eq!((service.runs(), rows(&database.owner().await).await), (1, [1, 1, 1]));
}

#[tokio::test]
async fn a_client_that_disconnects_rolls_its_call_back_if_that_is_the_policy() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (service, gate) = held_with(&database, 2, DisconnectPolicy::RollBack).await;
    let first = service.spawn("shop");
    until("the handler runs", async || service.runs() == 1).await;
    assert_eq!(reason(service.create("shop").await), Reason::InProgress);
    first.abort();
    until("it is rolled back", async || open_transactions(&owner).await == 0).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);

    gate.add_permits(1);
    let again = service.create("shop").await.expect("the key is free");
    assert!(!again.replayed);
    assert_eq!((service.runs(), rows(&owner).await), (2, [1, 1, 1]));
}
