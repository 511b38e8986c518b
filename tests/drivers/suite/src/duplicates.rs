//! Concurrent calls with one key.

use tokio::task::JoinSet;
use tonic::Code;
use tonic_idempotency::{
    rejection::{Mismatch, Reason},
    store::{
        BeginOutcome, Claim, ClaimOutcome, CommitOutcome, Completion, Store as _, StoredResponse, TransactionOptions,
    },
};
use tonic_idempotency_tests::{Database, until};

use crate::{Service, Stack, all_have_ended, assert_clean, new_claim, patient, pool, reason, rows};

pub async fn a_duplicate_is_refused_at_once_while_the_first_runs<S: Stack>() {
    let database = Database::new().await;
    let (service, gate) = Service::gated::<S>(&database, pool::<S>(&database, 4), |it| it).await;
    let first = service.spawn("wait");
    until("the handler runs", async || service.runs() == 1).await;
    for name in ["wait", "wait", "another shop"] {
        let status = service.create(name).await.expect_err("in progress");
        assert_eq!((status.code(), Reason::of(&status)), (Code::Aborted, Some(Reason::InProgress)));
    }
    gate.add_permits(1);
    let first = first.await.expect("no panic").expect("the first call");
    let replay = service.create("wait").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed, service.runs()), (first.project, true, 1));
    assert_eq!(reason(service.create("another shop").await), Reason::KeyReused);
}

pub async fn one_of_many_at_once_runs<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::inserting::<S>(&database, pool::<S>(&database, 8)).await;
    for round in 1..=4 {
        let service = service.with_new_key();
        let mut calls = JoinSet::new();
        for _ in 0..24 {
            let service = service.clone();
            calls.spawn(async move { service.create("shop").await });
        }
        let answers = calls.join_all().await;
        assert_eq!(answers.iter().flatten().filter(|seen| !seen.replayed).count(), 1, "{answers:?}");
        for answer in answers {
            if let Err(status) = answer {
                assert_eq!(Reason::of(&status), Some(Reason::InProgress));
            }
        }
        assert_eq!(rows(&owner).await, [round, round, round]);
    }
    all_have_ended(&owner).await;
}

/// Replays do not wait for each other, although the transaction of each ends after its answer.
pub async fn all_of_many_at_once_are_replayed_after_the_first<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 8);
    let service = Service::inserting::<S>(&database, pool.clone()).await;
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
    assert_clean::<S>(&pool).await;
}

/// Another procedure that shares the table, in a server of its own.
pub async fn another_procedure_is_refused_while_the_first_runs_and_afterwards<S: Stack>() {
    let database = Database::new().await;
    let store = patient::<S>(pool::<S>(&database, 4));
    let first = new_claim();
    let begun = store.begin(&first, TransactionOptions::default()).await.expect("the store answers");
    let BeginOutcome::Open { transaction, .. } = begun else { panic!("{begun:?}") };
    let other = Claim { procedure: "/organization.v1.ClusterService/CreateCluster".to_owned(), ..first.clone() };
    let refused = async || match store.begin(&other, TransactionOptions::default()).await.expect("the store answers") {
        BeginOutcome::Refused(outcome) => outcome,
        begun => panic!("{begun:?}"),
    };
    let outcome = refused().await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    let response = StoredResponse::message("done");
    let completion = Completion { response, resource: None, retention: std::time::Duration::from_secs(60) };
    assert_eq!(transaction.commit(Some(completion)).await.expect("a commit"), CommitOutcome::Committed);
    let outcome = refused().await;
    assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Procedure)), "{outcome:?}");
}
