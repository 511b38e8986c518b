//! Connections: each running call has one, and none returns to its pool inside a transaction.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use sqlx::Executor as _;
use tokio::sync::Semaphore;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::ProcedureBuilder,
    rejection::Reason,
    store::{BeginOutcome, ClaimOutcome, Store as _, StoreErrorKind, TransactionOptions},
};
use tonic_idempotency_sqlx::{SqlxStore, TransactionConnection};
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::harness::{
    Call, Service, all_are_back, all_have_ended, assert_clean, claim, open_transactions, patient, pool,
    pool_through_proxy, reason, rows,
};

#[tokio::test]
async fn are_returned_clean_whatever_the_outcome_of_the_call() {
    let database = Database::new().await;
    let pool = pool(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let project = call.insert().await?;
        match call.name.as_str() {
            "fail" => Err(Status::not_found("not now")),
            "panic" => panic!("as it was told"),
            "refused" => {
                let _ = call.connection().await?.execute("SELECT 1 / 0").await;
                Ok(project)
            }
            "savepoint" => {
                drop(sqlx::Acquire::begin(&mut *call.connection().await?).await);
                Ok(project)
            }
            _ => Ok(project),
        }
    })
    .await;
    for name in ["shop", "fail", "panic", "refused", "savepoint"] {
        let service = service.with_key(Some(Uuid::new_v4()));
        for _ in 0..2 {
            let _ = service.create(name).await;
            assert_clean(&pool).await;
        }
        let _ = service.create("another request").await;
        assert_clean(&pool).await;
        let _ = service.with_key(None).create(name).await;
        assert_clean(&pool).await;
    }
    all_have_ended(&database.owner().await).await;
}

#[tokio::test]
async fn are_one_for_each_running_call_and_none_for_its_duplicates() {
    let database = Database::new().await;
    let (pool, gate) = (pool(&database, 8), Arc::new(Semaphore::new(0)));
    let waits = Arc::clone(&gate);
    let service = Service::new(&database, pool.clone(), move |call: Call| {
        let gate = Arc::clone(&waits);
        async move {
            let project = call.insert().await?;
            gate.acquire().await.expect("it is not closed").forget();
            Ok(project)
        }
    })
    .await;
    let services: Vec<_> = (0..3).map(|_| service.with_key(Some(Uuid::new_v4()))).collect();
    let calls: Vec<_> = services.iter().map(|service| service.spawn("shop")).collect();
    until("the handlers run", async || service.runs() == 3).await;
    for service in &services {
        assert_eq!(reason(service.create("shop").await), Reason::InProgress);
    }
    let in_use = || usize::try_from(pool.size()).expect("a few") - pool.num_idle();
    until("the duplicates return their connections", async || in_use() == 3).await;
    assert_eq!(open_transactions(&database.owner().await).await, 3);
    gate.add_permits(3);
    for call in calls {
        call.await.expect("no panic").expect("a call");
    }
    all_are_back(&pool).await;
}

#[tokio::test]
async fn a_call_whose_connection_is_terminated_or_cut_leaves_nothing() {
    let database = Database::new().await;
    let owner = Arc::new(database.owner().await);
    let (proxy, pool) = pool_through_proxy(&database, 2).await;
    let (proxy, killer) = (Arc::new(proxy), Arc::clone(&owner));
    let service = Service::new(&database, pool, move |call: Call| {
        let (proxy, owner) = (Arc::clone(&proxy), Arc::clone(&killer));
        async move {
            let project = call.insert().await?;
            match call.name.as_str() {
                "unnoticed" => proxy.cut_connections(),
                "noticed" => {
                    proxy.cut_connections();
                    while call.connection().await?.execute("SELECT 1").await.is_ok() {}
                    return Err(Status::internal("something is wrong"));
                }
                "terminated" => {
                    let pid = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()");
                    let pid = pid.fetch_one(&mut *call.connection().await?).await.expect("its process");
                    owner.query_one("SELECT pg_terminate_backend($1)", &[&pid]).await.expect("it is killed");
                }
                _ => {}
            }
            Ok(project)
        }
    })
    .await;
    assert_eq!(reason(service.create("unnoticed").await), Reason::StoreUnavailable);
    assert_eq!(service.create("noticed").await.expect_err("it fails").code(), Code::Internal);
    assert_eq!(reason(service.create("terminated").await), Reason::StoreUnavailable);
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    service.create("shop").await.expect("the key is free");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

/// The first attempt finds out, and the next one has another connection: all that were idle are closed with it.
#[tokio::test]
async fn pooled_connections_that_were_terminated_are_replaced() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool(&database, 6);
    let service = Service::new(&database, pool.clone(), |call: Call| async move { call.insert().await }).await;
    let mut connections = Vec::new();
    for _ in 0..6 {
        connections.push(pool.acquire().await.expect("a connection"));
    }
    drop(connections);
    all_are_back(&pool).await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    owner.batch_execute(kill).await.expect("they are killed");
    service.create("shop").await.expect("a call");
    assert_eq!((rows(&owner).await, service.runs()), ([1, 1, 1], 1));
    assert_clean(&pool).await;
}

#[tokio::test]
async fn a_call_is_refused_if_there_is_no_connection() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy(&database, 1).await;
    let store = SqlxStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(4));
    let service = Service::built(
        &database,
        store,
        |procedure| procedure,
        |builder| builder,
        |call: Call| async move { call.insert().await },
    )
    .await;
    proxy.cut();
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::StoreUnavailable);
    }
    assert_eq!(service.runs(), 0);
    proxy.mend();
    service.create("shop").await.expect("a call");
}

/// Transactions leave a quarter of the pool to claims; a call waits for its turn, and is then told so.
#[tokio::test]
async fn of_a_pool_that_is_in_use_are_enough_for_claims() {
    let database = Database::new().await;
    let pool = pool(&database, 4);
    let store = patient(pool.clone());
    let hasty = store.clone().timeout(Duration::from_secs(2));
    let mut open = Vec::new();
    for _ in 0..3 {
        let begun = store.begin(&claim(Uuid::new_v4(), Uuid::new_v4()), TransactionOptions::default()).await;
        let Ok(BeginOutcome::Open { transaction, .. }) = begun else { panic!("{begun:?}") };
        open.push(transaction);
    }
    let refused = hasty.begin(&claim(Uuid::new_v4(), Uuid::new_v4()), TransactionOptions::default()).await;
    assert_eq!(refused.map(drop).expect_err("no permit").kind(), StoreErrorKind::Overloaded);
    let claimed = store.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await.expect("the store answers");
    assert!(matches!(claimed, ClaimOutcome::Acquired), "{claimed:?}");
    drop(open);
    all_are_back(&pool).await;
    // The application has them all.
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(pool.acquire().await.expect("a connection"));
    }
    let refused = hasty.claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await;
    assert_eq!(refused.map(drop).expect_err("no connection").kind(), StoreErrorKind::Overloaded);
}

/// The layer cannot commit as long as a task of the handler has the connection.
#[tokio::test]
async fn a_call_whose_handler_keeps_its_connection_is_refused_and_not_committed() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool(&database, 4);
    let store = SqlxStore::new(pool.clone(), organization::resource_types()).timeout(Duration::from_secs(2));
    let kept = Arc::new(Mutex::new(None::<TransactionConnection>));
    let keep = Arc::clone(&kept);
    let script = move |call: Call| {
        let keep = Arc::clone(&keep);
        async move {
            let project = call.insert().await?;
            *keep.lock().expect("no panic") = Some(call.connection().await?);
            Ok(project)
        }
    };
    let service = Service::built(&database, store, |procedure| procedure, |builder| builder, script).await;
    assert_eq!(reason(service.create("shop").await), Reason::StoreUnavailable);
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    let mut kept = kept.lock().expect("no panic").take().expect("the connection");
    assert_eq!(open_transactions(&owner).await, 1);
    // What it does with it is lost.
    crate::harness::insert(&mut kept, "late").await.expect("a project");
    drop(kept);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    assert_clean(&pool).await;
}

/// A process that hangs, or was cut off, does not hold its key for ever.
#[tokio::test]
async fn the_server_ends_a_transaction_that_is_idle_for_too_long() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let describe = |procedure: ProcedureBuilder| {
        procedure.transaction_idle(Duration::from_millis(300)).lease(Duration::from_secs(3600))
    };
    let service = Service::with(&database, pool(&database, 6), describe, move |call: Call| {
        let gate = Arc::clone(&waits);
        async move {
            let project = call.insert().await?;
            if call.name == "hangs" {
                gate.acquire().await.expect("it is not closed").forget();
            }
            Ok(project)
        }
    })
    .await;
    let zombie = service.spawn("hangs");
    until("the handler runs", async || service.runs() == 1).await;
    all_have_ended(&owner).await;
    // Its key is free, before it wakes up.
    let other = service.create("another shop").await.expect("a call");
    gate.add_permits(1);
    assert_eq!(reason(zombie.await.expect("no panic")), Reason::StoreUnavailable);
    assert_eq!((rows(&owner).await, other.replayed), ([1, 1, 1], false));
}

/// There is no runtime to roll back in, so the connection is closed, and the pool has its place again.
#[tokio::test]
async fn are_closed_outside_of_a_runtime() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool(&database, 1);
    let begun =
        patient(pool.clone()).begin(&claim(Uuid::new_v4(), Uuid::new_v4()), TransactionOptions::default()).await;
    let begun = begun.expect("a transaction");
    assert_eq!(open_transactions(&owner).await, 1);
    std::thread::spawn(move || drop(begun)).join().expect("no panic");
    all_have_ended(&owner).await;
    drop(pool.acquire().await.expect("a new connection"));
    assert_clean(&pool).await;
}

/// By the application, which sqlx knows of or not.
#[tokio::test]
async fn that_come_with_an_open_transaction_are_replaced() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call| async move { call.insert().await }).await;
    for left in [Left::Open("BEGIN; SELECT 1"), Left::Open("BEGIN; SELECT 1 / 0"), Left::Counted] {
        for key in [Some(Uuid::new_v4()), None] {
            leave(&pool, left).await;
            service.with_key(key).create("shop").await.expect("a call");
            assert_clean(&pool).await;
        }
        leave(&pool, left).await;
        let claimed = patient(pool.clone()).claim(&claim(Uuid::new_v4(), Uuid::new_v4())).await;
        assert!(matches!(claimed, Ok(ClaimOutcome::Acquired)), "{claimed:?}");
        assert_clean(&pool).await;
    }
    assert_eq!(rows(&owner).await, [6, 6, 6]);
}

#[derive(Clone, Copy, Debug)]
enum Left {
    Open(&'static str),
    Counted,
}

/// Leaves a transaction open on the connection of the pool.
async fn leave(pool: &sqlx::PgPool, left: Left) {
    let mut connection = pool.acquire().await.expect("a connection");
    match left {
        Left::Open(begin) => drop(connection.execute(sqlx::raw_sql(begin)).await),
        Left::Counted => std::mem::forget(sqlx::Connection::begin(&mut *connection).await.expect("a transaction")),
    }
    // With a query, whoever began it: an empty transaction is the next one's.
    let _ = connection.execute("SELECT 1").await;
    drop(connection);
    all_are_back(pool).await;
}
