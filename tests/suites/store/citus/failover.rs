//! Nodes that are standbys, and nodes that wait for one before they say that something is committed.

use tonic_idempotency::KeyId;

use super::{
    call::{of, ordering},
    cluster::SUPERUSER,
    distributed::{API, Distributed},
};
use crate::prelude::*;

/// Nothing was decided, and the connection is closed.
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, pool: &Pool) {
    let error = outcome.expect_err("it is read-only");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Overloaded, false), "{error:?}");
    assert_eq!(pool.status().size, 0, "a connection is kept");
}

/// A failover may undo changes that a standby has. The functions recognise a standby by its read-only transactions.
#[tokio::test]
async fn a_coordinator_that_is_read_only_decides_on_no_key() {
    let Some(distributed) = Distributed::take().await else { return };
    let done = of(Uuid::new_v4());
    complete(&distributed.store(), &done, &completion("done")).await;
    let mut config = distributed.coordinator.config(API, &distributed.name);
    config.options("-c default_transaction_read_only=on");
    let pool = pool(config, 1, String::new());
    let store = distributed.store_on(pool.clone());
    for claim in [&done, &of(Uuid::new_v4())] {
        assert_refused(store.claim(&again(claim)).await, &pool);
        assert_refused(store.begin(&again(claim), TransactionOptions::default()).await, &pool);
        assert_refused(store.look_up(&question(claim, false)).await, &pool);
        let begun = store.begin_without_key(None, &claim.session, TransactionOptions::default()).await;
        assert_refused(begun, &pool);
    }
}

/// The coordinator can be written to, and the node of the user cannot.
#[tokio::test]
async fn a_node_that_is_read_only_decides_on_no_key_of_its_users() {
    let Some(distributed) = Distributed::make().await else { return };
    let writable = distributed.store();
    let done = distributed.call_on(0).await;
    let elsewhere = distributed.call_on(1).await;
    complete(&writable, &done, &completion("done")).await;
    set_on_worker(&distributed, 0, "default_transaction_read_only = on").await;

    let pool = distributed.pool(1);
    let store = distributed.store_on(pool.clone());
    let owner = done.reservation.owner;
    let absent = Claim { reservation: Reservation::new(owner, KeyId::new(Uuid::new_v4())), ..done.clone() };
    for claim in [&done, &absent] {
        assert_refused(store.claim(&again(claim)).await, &pool);
        assert_refused(store.begin(&again(claim), TransactionOptions::default()).await, &pool);
        assert_refused(store.look_up(&question(claim, false)).await, &pool);
    }
    assert_refused(store.complete(&done.reservation, &completion("other")).await, &pool);
    complete(&store, &elsewhere, &completion("done")).await;
    assert_eq!(replay_of(&writable, &done).await.response, StoredResponse::message("done"));
}

/// Sets something for connections of the API's role to a worker that are made from now on.
async fn set_on_worker(distributed: &Distributed, worker: usize, setting: &str) {
    let client = distributed.connect(&distributed.workers[worker], SUPERUSER).await;
    let alter = format!("ALTER ROLE {API} IN DATABASE {} SET {setting}", distributed.name);
    for statement in ["SET citus.enable_ddl_propagation = off", &alter] {
        client.batch_execute(statement).await.expect("the setting");
    }
}

/// From now on, new connections between the nodes wait for the standbys.
async fn wait_for_standbys(distributed: &Distributed) {
    for worker in 0..distributed.workers.len() {
        set_on_worker(distributed, worker, "synchronous_commit = on").await;
    }
}

/// The connections to all workers that wait for a standby.
async fn waiting(distributed: &Distributed) -> Vec<(usize, i32)> {
    let mut found = Vec::new();
    for (worker, place) in distributed.workers.iter().enumerate() {
        let client = distributed.connect(place, SUPERUSER).await;
        let waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'";
        let rows = client.query(waiting, &[]).await.expect("the connections");
        found.extend(rows.iter().map(|row| (worker, row.get(0))));
    }
    found
}

async fn until_one_waits(distributed: &Distributed) -> (usize, i32) {
    until("one connection waits for a standby", async || waiting(distributed).await.len() == 1).await;
    waiting(distributed).await[0]
}

/// Ends the wait of a connection. If the wait is cancelled, the server reports the commit; if the connection is ended, it reports nothing.
async fn end_wait(distributed: &Distributed, (worker, pid): (usize, i32), function: &str) {
    let client = distributed.connect(&distributed.workers[worker], SUPERUSER).await;
    execute(&client, &format!("SELECT {function}({pid})")).await;
}

/// An earlier attempt may not have waited.
#[tokio::test]
async fn a_repeated_claim_waits_for_the_standby_of_its_node() {
    let Some(distributed) = Distributed::make().await else { return };
    let call = of(Uuid::new_v4());
    acquire(&distributed.store(), &call).await;
    wait_for_standbys(&distributed).await;
    let store = distributed.store();
    let repeated = tokio::spawn({
        let call = call.clone();
        async move { store.claim(&call).await }
    });
    let waiting = until_one_waits(&distributed).await;
    end_wait(&distributed, waiting, "pg_cancel_backend").await;
    let outcome = repeated.await.expect("no panic").expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

/// The node has committed, and ends the connection before it says so.
#[tokio::test]
async fn a_commit_is_found_if_its_node_was_lost_before_it_answered() {
    let Some(distributed) = Distributed::make().await else { return };
    let call = of(Uuid::new_v4());
    wait_for_standbys(&distributed).await;
    let store = distributed.store();
    let transaction = ordering(&store, &call).await;
    let commit = tokio::spawn(transaction.commit(Some(completion("done"))));
    let waiting = until_one_waits(&distributed).await;

    end_wait(&distributed, waiting, "pg_terminate_backend").await;

    assert_eq!(commit.await.expect("no panic").expect("it is committed"), CommitOutcome::Committed);
    assert_eq!(distributed.orders_and_records().await, (1, 1));
}

/// An old primary that is not fenced has neither the lock nor the record of a transaction at the new one.
#[tokio::test]
async fn a_transaction_is_called_rolled_back_only_when_the_standby_of_its_node_agrees() {
    let Some(distributed) = Distributed::make().await else { return };
    let user = Uuid::new_v4();
    let call = of(user);
    let (key, token) = (*call.reservation.key.as_uuid(), call.reservation.token);
    let committed = format!("CALL tenant.idempotency_committed('{user}', '{key}', '{token}', NULL)");
    let transaction = ordering(&distributed.store(), &call).await;
    wait_for_standbys(&distributed).await;
    let api = distributed.connect(&distributed.coordinator, API).await;
    let ask = async || value::<Option<bool>>(&api, &committed).await;
    assert_eq!(ask().await, None, "the transaction is open");
    transaction.roll_back().await;

    let (answer, ()) = tokio::join!(ask(), async {
        let waiting = until_one_waits(&distributed).await;
        end_wait(&distributed, waiting, "pg_cancel_backend").await;
    });
    assert_eq!(answer, Some(false));
    let found = look_up(&distributed.store(), &call).await;
    assert_eq!(found.state, KeyState::Absent);
}
