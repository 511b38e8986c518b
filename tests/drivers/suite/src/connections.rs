//! Connections: each running call has one, and none returns to its pool inside of a transaction.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::task::JoinSet;
use tokio_postgres::{Client, error::SqlState};
use tonic::Status;
use tonic_idempotency::{
    policy::{Isolation, Mode, ProcedureBuilder},
    rejection::Reason,
    store::{BeginOutcome, ClaimOutcome, Store as _, StoreErrorKind, TransactionErrorKind, TransactionOptions},
};
use tonic_idempotency_tests::{Database, until, uuid_of};
use uuid::Uuid;

use crate::{
    Call, End, Service, Stack, all_are_back, all_have_ended, assert_clean, execute_on_one, fill, functions::search,
    in_use, new_claim, open_transactions, patient, pool, pool_through_proxy, pool_with, reason, rows, status, store,
    take,
};

pub async fn are_returned_clean_whatever_the_outcome_of_the_call<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let project = call.insert().await?;
        match call.name.as_str() {
            "fail" => Err(Status::not_found("not now")),
            "panic" => panic!("as it was told"),
            "refused" => {
                let _ = call.execute("SELECT 1 / 0").await;
                Ok(project)
            }
            "savepoint" => {
                let _ = call.nested(&[], End::RollBack).await;
                Ok(project)
            }
            _ => Ok(project),
        }
    })
    .await;
    for name in ["shop", "fail", "panic", "refused", "savepoint"] {
        let service = service.with_new_key();
        for _ in 0..2 {
            let _ = service.create(name).await;
            assert_clean::<S>(&pool).await;
        }
        let _ = service.create("another request").await;
        assert_clean::<S>(&pool).await;
        let _ = service.with_key(None).create(name).await;
        assert_clean::<S>(&pool).await;
    }
    all_have_ended(&database.owner().await).await;
}

pub async fn are_one_for_each_running_call_and_none_for_its_duplicates<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 8);
    let (service, gate) = Service::gated::<S>(&database, pool.clone(), |it| it).await;
    let services: Vec<_> = (0..3).map(|_| service.with_new_key()).collect();
    let calls: Vec<_> = services.iter().map(|service| service.spawn("wait")).collect();
    until("the handlers run", async || service.runs() == 3).await;
    for service in &services {
        assert_eq!(reason(service.create("wait").await), Reason::InProgress);
    }
    until("the duplicates return their connections", async || in_use::<S>(&pool) == 3).await;
    assert_eq!(open_transactions(&database.owner().await).await, 3);
    gate.add_permits(3);
    for call in calls {
        call.await.expect("no panic").expect("a call");
    }
    all_are_back::<S>(&pool).await;
}

pub async fn a_call_whose_connection_is_terminated_or_cut_leaves_nothing<S: Stack>() {
    let database = Database::new().await;
    let owner = Arc::new(database.owner().await);
    let (proxy, pool) = pool_through_proxy::<S>(&database, 2).await;
    let (proxy, killer) = (Arc::new(proxy), Arc::clone(&owner));
    let service = Service::new(&database, pool, move |call: Call<S>| {
        let (proxy, owner) = (Arc::clone(&proxy), Arc::clone(&killer));
        async move {
            let project = call.insert().await?;
            match call.name.as_str() {
                "unnoticed" => proxy.cut_connections(),
                "noticed" => {
                    proxy.cut_connections();
                    while call.execute("SELECT 1").await.is_ok() {}
                    return Err(Status::internal("something is wrong"));
                }
                "terminated" => {
                    let pid = call.select("SELECT pg_backend_pid()::text").await?.expect("its process");
                    let kill = format!("SELECT pg_terminate_backend({pid})");
                    owner.batch_execute(&kill).await.expect("it is killed");
                }
                _ => {}
            }
            Ok(project)
        }
    })
    .await;
    for name in ["unnoticed", "noticed", "terminated"] {
        assert_eq!(reason(service.create(name).await), Reason::StoreUnavailable, "{name}");
        key_is_free(&owner).await;
    }
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    service.create("shop").await.expect("the key is free");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

/// Waits until the server has noticed that a connection has gone, and has released the key's lock.
async fn key_is_free(owner: &Client) {
    let select = "SELECT NOT EXISTS (
                      SELECT FROM pg_locks
                      WHERE locktype = 'advisory'
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  )";
    until("the lock is released", async || owner.query_one(select, &[]).await.expect("the locks").get(0)).await;
}

/// The first attempt fails, and a later one gets another connection.
pub async fn pooled_connections_that_were_terminated_are_replaced<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 6);
    let service = Service::inserting::<S>(&database, pool.clone()).await;
    fill::<S>(&pool, 6).await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    owner.batch_execute(kill).await.expect("they are killed");
    service.create("shop").await.expect("a call");
    assert_eq!((rows(&owner).await, service.runs()), ([1, 1, 1], 1));
}

pub async fn a_call_is_refused_if_there_is_no_connection<S: Stack>() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 1).await;
    let store = store::<S>(pool).timeout(Duration::from_secs(4));
    let script = |call: Call<S>| async move { call.insert().await };
    let service = Service::built(&database, store, |procedure| procedure, |builder| builder, script).await;
    proxy.cut();
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::StoreUnavailable);
    }
    assert_eq!(service.runs(), 0);
    proxy.mend();
    service.create("shop").await.expect("a call");
}

/// Transactions leave a quarter of the pool to claims. A further call waits for its turn, and is then refused.
pub async fn of_a_pool_that_is_in_use_are_enough_for_claims<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 4);
    let store = patient::<S>(pool.clone());
    let hasty = store.clone().timeout(Duration::from_secs(2));
    let mut open = Vec::new();
    for _ in 0..3 {
        let begun = store.begin(&new_claim(), TransactionOptions::default()).await;
        let Ok(BeginOutcome::Open { transaction, .. }) = begun else { panic!("{begun:?}") };
        open.push(transaction);
    }
    let refused = hasty.begin(&new_claim(), TransactionOptions::default()).await;
    assert_eq!(refused.map(drop).expect_err("no permit").kind(), StoreErrorKind::TransactionLimit);
    let claimed = store.claim(&new_claim()).await.expect("the store answers");
    assert!(matches!(claimed, ClaimOutcome::Acquired), "{claimed:?}");
    drop(open);
    all_are_back::<S>(&pool).await;
    // The application has them all.
    let connections = take::<S>(&pool, 4).await;
    let refused = hasty.claim(&new_claim()).await;
    assert_eq!(refused.map(drop).expect_err("no connection").kind(), StoreErrorKind::Overloaded);
    drop(connections);
}

/// The times that are logged of a procedure whose transactions idle for longer than they work.
pub async fn tell_how_long_they_were_used_and_how_long_not<S: Stack>() {
    let database = Database::new().await;
    let store = patient::<S>(pool::<S>(&database, 1));
    let begun = store.begin(&new_claim(), TransactionOptions::default()).await;
    let Ok(BeginOutcome::Open { transaction, .. }) = begun else { panic!("{begun:?}") };
    let times = || transaction.times().expect("the store measures them");
    let mut extensions = http::Extensions::new();
    transaction.hand_out(&mut extensions);
    assert_eq!((transaction.was_used(), times().working), (false, Duration::ZERO));
    let handle = S::transaction(&extensions).expect("a transaction");
    for _ in 0..2 {
        let before = times();
        let mut connection = S::connection(&handle).await.expect("a connection");
        S::execute(&mut connection, "SELECT pg_sleep(0.2)").await.expect("it works");
        drop(connection);
        let after = times();
        assert!(after.working - before.working >= Duration::from_millis(200), "{before:?} {after:?}");
        until("it has idled", async || times().idle > after.idle + Duration::from_millis(20)).await;
        assert_eq!(times().working, after.working);
    }
    assert!(transaction.was_used());
    transaction.roll_back().await;
}

/// A handler's task that keeps the connection keeps the layer from committing, or has a dead one afterwards.
pub async fn a_call_whose_handler_keeps_its_connection_is_refused_or_the_connection_is_dead<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 4);
    let store = store::<S>(pool.clone()).timeout(Duration::from_secs(2));
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let script = move |call: Call<S>| {
        let keep = Arc::clone(&keep);
        async move {
            let project = call.insert().await?;
            *keep.lock().expect("no panic") = Some(call.connection().await.map_err(status)?);
            Ok(project)
        }
    };
    let service = Service::built(&database, store, |procedure| procedure, |builder| builder, script).await;
    let answer = service.create("shop").await;
    let mut kept = kept.lock().expect("no panic").take().expect("the connection");
    let late = S::insert(&mut kept, "late").await;
    let left = if S::IS_EXCLUSIVE {
        assert_eq!(reason(answer), Reason::StoreUnavailable);
        // Its write is lost.
        late.expect("a project");
        assert_eq!(open_transactions(&owner).await, 1);
        [0, 0, 0]
    } else {
        answer.expect("a call");
        assert_eq!(S::kind(&late.expect_err("the call has ended")), TransactionErrorKind::Ended);
        [1, 1, 1]
    };
    drop(kept);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, left);
    assert_clean::<S>(&pool).await;
}

/// A call whose handler hangs: the server ends its transaction, and its key is free before it wakes up.
async fn ended_by_the_server<S: Stack>(
    database: &Database,
    pool: S::Pool,
    describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
) {
    let owner = database.owner().await;
    let (service, gate) = Service::gated::<S>(database, pool, describe).await;
    let zombie = service.spawn("wait");
    until("the handler runs", async || service.runs() == 1).await;
    all_have_ended(&owner).await;
    let other = service.create("another shop").await.expect("a call");
    gate.add_permits(1);
    assert_eq!(reason(zombie.await.expect("no panic")), Reason::StoreUnavailable);
    assert_eq!((rows(&owner).await, other.replayed), ([1, 1, 1], false));
}

/// A process that hangs, or was cut off, does not hold its key for ever.
pub async fn the_server_ends_a_transaction_that_is_idle_for_too_long<S: Stack>() {
    let database = Database::new().await;
    let describe = |procedure: ProcedureBuilder| {
        procedure.transaction_idle(Duration::from_millis(300)).lease(Duration::from_secs(3600))
    };
    ended_by_the_server::<S>(&database, pool::<S>(&database, 6), describe).await;
}

/// From PostgreSQL 17 on, if its `transaction_timeout` is set.
pub async fn the_server_ends_a_transaction_that_lasts_for_too_long<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let limit = "SET transaction_timeout = '2s'";
    let version = "SELECT current_setting('server_version_num')::integer / 10000";
    if owner.query_one(version, &[]).await.expect("the version").get::<_, i32>(0) < 17 {
        let error = owner.batch_execute(limit).await.expect_err("older servers do not have it");
        assert_eq!(error.code(), Some(&SqlState::UNDEFINED_OBJECT));
        return;
    }
    ended_by_the_server::<S>(&database, pool_with::<S>(&database, 6, limit), |it| it).await;
}

/// There is no runtime to roll back in, so the connection is closed, and the pool has its place again.
pub async fn are_closed_outside_of_a_runtime<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let begun = patient::<S>(pool.clone()).begin(&new_claim(), TransactionOptions::default()).await;
    let begun = begun.expect("a transaction");
    assert_eq!(open_transactions(&owner).await, 1);
    std::thread::spawn(move || drop(begun)).join().expect("no panic");
    all_have_ended(&owner).await;
    fill::<S>(&pool, 1).await;
    assert_clean::<S>(&pool).await;
}

/// An open transaction of the application, which the library may not know of. Also if it has run no query: the handler does not see it, and
/// nothing commits it.
pub async fn that_come_with_an_open_transaction_are_replaced<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let describe = |procedure: ProcedureBuilder| procedure.isolation(isolation);
        let service = Service::with(&database, pool.clone(), describe, |call: Call<S>| async move {
            let seen = "SELECT concat(current_setting('app.tenant', true), current_setting('app.kept', true))";
            assert_eq!(call.select(seen).await?.as_deref(), Some(""));
            call.insert().await
        })
        .await;
        replaced_on::<S>(&pool, &service).await;
    }
    let owner = database.owner().await;
    assert_eq!(rows(&owner).await, [60, 60, 45]);
}

/// Leaves a transaction of each kind on the pool's only connection before each kind of call.
async fn replaced_on<S: Stack>(pool: &S::Pool, service: &Service) {
    for left in [
        "BEGIN",
        "BEGIN; SET LOCAL app.tenant = 'another'; SET app.kept = 'committed'; NOTIFY left_open",
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; SAVEPOINT a; SET LOCAL app.tenant = 'another'",
        "BEGIN; SELECT 1",
        "BEGIN; SELECT 1 / 0",
    ] {
        for service in [service.with_new_key(), service.with_key(None)] {
            // Prepares the statements, which is a query, too.
            service.create("shop").await.expect("a call");
            all_are_back::<S>(pool).await;
            execute_on_one::<S>(pool, left).await;
            let again = service.with_key(service.key.map(|_| Uuid::new_v4()));
            again.create("shop").await.expect(left);
            assert_clean::<S>(pool).await;
        }
        let store = patient::<S>(pool.clone());
        execute_on_one::<S>(pool, left).await;
        let claimed = store.claim(&new_claim()).await;
        assert!(matches!(claimed, Ok(ClaimOutcome::Acquired)), "{left}: {claimed:?}");
        execute_on_one::<S>(pool, left).await;
        store.abandoned(&search()).await.expect(left);
        assert_clean::<S>(pool).await;
    }
}

/// In both modes, with keys and without: each waits for its turn.
pub async fn one_is_enough_for_many_calls<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let project = uuid_of(&database.project(None).await);
    let transactional = Service::inserting::<S>(&database, pool.clone()).await;
    let describe = |procedure: ProcedureBuilder| procedure.mode(Mode::Reserved);
    let reserved = Service::with(&database, pool.clone(), describe, move |_: Call<S>| async move { Ok(project) }).await;
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        for service in [transactional.with_new_key(), transactional.with_key(None), reserved.with_new_key()] {
            calls.spawn(async move {
                for round in 0..2 {
                    let seen = service.create("shop").await.expect("a call");
                    assert_eq!(seen.replayed, round > 0 && service.key.is_some());
                }
            });
        }
    }
    calls.join_all().await;
    assert_eq!((transactional.runs(), reserved.runs()), (8 + 16, 8));
    assert_eq!(rows(&owner).await, [1 + 8 + 16, 8 + 16, 16]);
    assert_clean::<S>(&pool).await;
}
