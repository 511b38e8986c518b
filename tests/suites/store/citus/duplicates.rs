//! Calls with one key at the same time, and one after the other, of users on all nodes.

use super::{
    call::{Ended, of, order},
    distributed::{API, Distributed},
};
use crate::prelude::*;

/// Enough that there are some on each node.
const USERS: usize = 12;
const CALLS: usize = 8;

/// Or takes it over, if the lease has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_claims_at_once_acquires_the_key() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let mut users = JoinSet::new();
    for number in 0..USERS {
        let store = store.clone();
        users.spawn(async move {
            let first = of(Uuid::new_v4());
            if number % 2 == 0 {
                acquire(&store, &Claim { lease: Duration::ZERO, ..first.clone() }).await;
            }
            let mut claims = JoinSet::new();
            for _ in 0..CALLS {
                let (store, claim) = (store.clone(), again(&first));
                claims.spawn(async move { store.claim(&claim).await.expect("the store answers") });
            }
            let outcomes = claims.join_all().await;
            let has = |outcome: &&_| matches!(outcome, ClaimOutcome::Acquired | ClaimOutcome::TakenOver);
            let in_flight = outcomes.iter().filter(|outcome| matches!(outcome, ClaimOutcome::InFlight { .. })).count();
            assert_eq!((outcomes.iter().filter(has).count(), in_flight), (1, CALLS - 1), "{outcomes:?}");
        });
    }
    users.join_all().await;
    assert_eq!(distributed.nodes_with_records().await, 2, "the users are on both nodes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_transactions_takes_effect() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let mut users = JoinSet::new();
    for _ in 0..USERS {
        let store = store.clone();
        users.spawn(async move {
            let first = of(Uuid::new_v4());
            let mut calls = JoinSet::new();
            for _ in 0..CALLS {
                let (store, claim) = (store.clone(), again(&first));
                calls.spawn(async move { order(&store, &claim).await.expect("the store answers") });
            }
            let ended = calls.join_all().await;
            let committed = ended.iter().filter(|ended| matches!(ended, Ended::Committed)).count();
            let refused = ended
                .iter()
                .filter(|ended| {
                    matches!(ended, Ended::Refused(ClaimOutcome::InFlight { .. } | ClaimOutcome::Replay(_)))
                })
                .count();
            assert_eq!((committed, refused), (1, CALLS - 1), "{ended:?}");
        });
    }
    users.join_all().await;
    assert_eq!(distributed.orders_and_records().await, (USERS, USERS));
}

#[tokio::test]
async fn a_sweep_deletes_expired_records_on_all_nodes() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    for _ in 0..USERS {
        acquire(&store, &Claim { lease: Duration::ZERO, retention: Duration::ZERO, ..of(Uuid::new_v4()) }).await;
    }
    let kept = of(Uuid::new_v4());
    acquire(&store, &kept).await;
    assert_eq!(distributed.nodes_with_records().await, 2, "the users are on both nodes");
    assert_eq!(store.sweep(1000).await.expect("the store answers"), USERS as u64);
    assert_eq!(distributed.orders_and_records().await, (0, 1));
    assert_in_flight(&store, &kept).await;
}

/// Otherwise its statements would wait for those of the other sweep, on all nodes.
#[tokio::test]
async fn a_sweep_leaves_the_work_to_another_one_that_runs() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    for _ in 0..USERS {
        acquire(&store, &Claim { lease: Duration::ZERO, retention: Duration::ZERO, ..of(Uuid::new_v4()) }).await;
    }
    let mut api = distributed.connect(&distributed.coordinator, API).await;
    let other = api.transaction().await.expect("a transaction");
    let swept =
        other.query_one("SELECT deleted FROM tenant.idempotency_sweep_rows(4)", &[]).await.expect("another sweep");
    assert_eq!(swept.get::<_, i64>(0), 4);
    assert_eq!(store.sweep(1000).await.expect("the store answers"), 0);
    acquire(&store, &of(Uuid::new_v4())).await;
    other.commit().await.expect("it is committed");
    assert_eq!(store.sweep(1000).await.expect("the store answers"), USERS as u64 - 4);
}
