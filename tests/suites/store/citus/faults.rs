//! Nodes that are killed (`kill -9`) and come back.

use std::{collections::HashMap, sync::atomic::AtomicUsize};

use tokio::{
    join,
    time::{Interval, interval},
};

use super::{
    call::{Ended, insert, of, open, order, order_and_project, ordering},
    cluster::{Cluster, SUPERUSER},
    distributed::Distributed,
};
use crate::prelude::*;

/// The callers that call at the same time.
const CALLERS: usize = 8;

/// The nodes that are killed, one after the other: 0 is the coordinator.
const KILLED: [usize; 4] = [1, 0, 2, 0];

/// A cluster of its own, whose nodes a test may kill.
async fn breakable() -> Option<(Cluster, Distributed, PostgresStore)> {
    let cluster = Cluster::start().await?;
    let distributed = Distributed::new(&cluster).await;
    let store = distributed.store().timeout(Duration::from_secs(5));
    Some((cluster, distributed, store))
}

/// The times at which a client tries again.
fn retries() -> Interval {
    interval(Duration::from_millis(10))
}

/// Calls of several callers while nodes are killed.
#[derive(Clone, Default)]
struct Calls {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
}

impl Calls {
    /// Calls with one new key after the other. Returns those that were answered.
    async fn call(self, one: impl AsyncFn(&Claim) -> bool) -> Vec<Claim> {
        let mut answered = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let call = of(Uuid::new_v4());
            if one(&call).await {
                answered.push(call);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
        answered
    }

    /// Kills nodes while they run, and then ends them.
    async fn break_and_stop(&self, cluster: &mut Cluster) {
        for node in KILLED {
            let before = self.done.load(Ordering::Relaxed);
            until("calls run", async || self.done.load(Ordering::Relaxed) >= before + 4 * CALLERS).await;
            let node = match node {
                0 => &mut cluster.coordinator,
                worker => &mut cluster.workers[worker - 1],
            };
            node.kill().await.expect("it is killed");
            node.restart().await.expect("it is back");
        }
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Calls in transactional mode until it has an answer, as a client does.
async fn persist(store: &PostgresStore, call: &Claim, with_project: bool) {
    let mut retries = retries();
    loop {
        retries.tick().await;
        let call = again(call);
        let ended = if with_project { order_and_project(store, &call).await } else { order(store, &call).await };
        match ended {
            Ok(Ended::Committed | Ended::Refused(ClaimOutcome::Replay(_))) => return,
            Ok(Ended::Refused(ClaimOutcome::InFlight { .. }) | Ended::Superseded) | Err(_) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
}

/// Calls twice at once in reserved mode, and completes the call that acquired the key. Returns whether one did and was completed.
async fn reserve(store: &PostgresStore, call: &Claim) -> bool {
    let second = again(call);
    let holders: Vec<_> = match join!(store.claim(call), store.claim(&second)) {
        (Ok(ClaimOutcome::Acquired), Ok(ClaimOutcome::Acquired)) => panic!("both have acquired the key"),
        (Ok(ClaimOutcome::Acquired), _) => vec![call],
        (_, Ok(ClaimOutcome::Acquired)) => vec![&second],
        _ => vec![],
    };
    let Some(holder) = holders.first() else { return false };
    let mut retries = retries();
    loop {
        retries.tick().await;
        match store.complete(&holder.reservation, &completion("done")).await {
            Ok(CompleteOutcome::Completed | CompleteOutcome::AlreadyCompleted) => return true,
            Ok(other) => panic!("the reservation was lost: {other:?}"),
            Err(_) => {}
        }
    }
}

#[expect(clippy::print_stdout, reason = "says how many calls were tried")]
async fn break_transactional(with_project: bool) {
    let Some((mut cluster, distributed, store)) = breakable().await else { return };
    let calls = Calls::default();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (calls, store) = (calls.clone(), store.clone());
        callers.spawn(calls.call(async move |call| {
            persist(&store, call, with_project).await;
            true
        }));
    }
    calls.break_and_stop(&mut cluster).await;
    let answered: Vec<Claim> = callers.join_all().await.into_iter().flatten().collect();

    let superuser = distributed.superuser().await;
    let mut found: HashMap<String, (i64, i64)> = HashMap::new();
    let found_by_key = "SELECT key, count(*) FILTER (WHERE kind = 'order'), count(*) FILTER (WHERE kind = 'project')
                        FROM (SELECT name AS key, 'order' AS kind FROM app.orders
                              UNION ALL SELECT id::text, 'project' FROM app.projects) effects
                        GROUP BY key";
    for row in superuser.query(found_by_key, &[]).await.expect("the effects") {
        found.insert(row.get(0), (row.get(1), row.get(2)));
    }
    for call in &answered {
        let key = call.reservation.key.as_uuid().to_string();
        assert_eq!(
            found.remove(&key),
            Some((1, i64::from(with_project))),
            "of {} answered calls, {key}",
            answered.len()
        );
    }
    assert!(found.is_empty(), "nobody called {found:?}");
    assert_eq!(distributed.orders_and_records().await.1, answered.len());
    for worker in &distributed.workers {
        let client = distributed.connect(worker, SUPERUSER).await;
        let prepared = "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()";
        until("all transactions are resolved", async || value::<i64>(&client, prepared).await == 0).await;
    }
    println!("{} calls, {} nodes killed", answered.len(), KILLED.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_duplicates_no_transactional_call_and_loses_none() {
    break_transactional(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_tears_no_transaction_on_all_nodes_apart() {
    break_transactional(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "says how many calls were tried")]
async fn a_node_that_is_killed_duplicates_no_reserved_call_and_loses_none() {
    let Some((mut cluster, _distributed, store)) = breakable().await else { return };
    let calls = Calls::default();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (calls, store) = (calls.clone(), store.clone());
        callers.spawn(calls.call(async move |call| reserve(&store, call).await));
    }
    calls.break_and_stop(&mut cluster).await;
    let answered: Vec<Claim> = callers.join_all().await.into_iter().flatten().collect();
    for call in &answered {
        assert_eq!(replay_of(&store, call).await.response, StoredResponse::message("done"));
    }
    println!("{} calls, {} nodes killed", answered.len(), KILLED.len());
}

#[tokio::test]
async fn a_transaction_whose_node_is_killed_takes_no_effect() {
    let Some((mut cluster, distributed, store)) = breakable().await else { return };
    let user = Uuid::new_v4();
    let call = of(user);
    let worker = distributed.worker_of(user).await;
    let transaction = ordering(&store, &call).await;
    cluster.workers[worker].kill().await.expect("it is killed");
    cluster.workers[worker].restart().await.expect("it is back");
    transaction.commit(Some(completion("lost"))).await.expect_err("its node was killed");
    assert_eq!(distributed.orders_and_records().await, (0, 0));
    persist(&store, &call, false).await;
    assert_eq!(distributed.orders_and_records().await, (1, 1));
}

/// The handler catches the error at a savepoint, and goes on with the node that is back, which has forgotten the transaction.
#[tokio::test]
async fn a_transaction_does_not_go_on_with_a_node_that_has_forgotten_it() {
    let Some((mut cluster, distributed, store)) = breakable().await else { return };
    let user = Uuid::new_v4();
    let call = of(user);
    let worker = distributed.worker_of(user).await;
    let (transaction, handle) = open(&store, &call).await.expect("the key is free");
    insert(&handle, user, Uuid::new_v4()).await.expect("an order");
    handle.batch_execute("SAVEPOINT before_the_fault").await.expect("a savepoint");
    cluster.workers[worker].kill().await.expect("it is killed");
    cluster.workers[worker].restart().await.expect("it is back");
    insert(&handle, user, Uuid::new_v4()).await.expect_err("its node was killed");
    let back = handle.batch_execute("ROLLBACK TO SAVEPOINT before_the_fault").await;
    let second = insert(&handle, user, Uuid::new_v4()).await;
    drop(handle);
    let outcome = transaction.commit(Some(completion("half"))).await;
    assert!(outcome.is_err(), "{back:?}, {second:?}, {outcome:?}");
    assert_eq!(distributed.orders_and_records().await, (0, 0));
}

#[tokio::test]
async fn a_worker_that_is_down_keeps_no_other_user_from_calling() {
    let Some((mut cluster, distributed, store)) = breakable().await else { return };
    let (here, elsewhere) = (distributed.call_on(0).await, distributed.call_on(1).await);
    cluster.workers[0].kill().await.expect("it is killed");
    let error = store.claim(&here).await.expect_err("its node is down");
    assert_eq!(error.kind(), StoreErrorKind::Overloaded, "{error:?}");
    complete(&store, &elsewhere, &completion("done")).await;
    cluster.workers[0].restart().await.expect("it is back");
    complete(&store, &again(&here), &completion("done")).await;
}

#[tokio::test]
async fn a_reservation_survives_its_node() {
    let Some((mut cluster, distributed, _)) = breakable().await else { return };
    let store = distributed.store();
    let (held, ended) = (of(Uuid::new_v4()), Claim { lease: Duration::ZERO, ..of(Uuid::new_v4()) });
    acquire(&store, &held).await;
    acquire(&store, &ended).await;
    for worker in &mut cluster.workers {
        worker.kill().await.expect("it is killed");
        worker.restart().await.expect("it is back");
    }
    assert_in_flight(&store, &held).await;
    record(&store, &held, "done").await;
    assert_eq!(replay_of(&store, &held).await.response, StoredResponse::message("done"));
    take_over(&store, &again(&ended)).await;
}
