//! Connections: each running call has one, and none returns to its pool inside a transaction.

use std::{sync::Arc, time::Duration};

use deadpool_postgres::Pool;
use tokio::sync::Semaphore;
use tonic::{Code, Status};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::harness::{Call, Service, all_have_ended, open_transactions, reason, rows};

/// Asserts that the pool's connections are clean: no transaction, user, token, timeout, lock or prepared statement.
pub(crate) async fn assert_clean(pool: &Pool) {
    let mut connections = Vec::new();
    for _ in 0..pool.status().size {
        connections.push(pool.get().await.expect("a connection"));
    }
    for connection in connections {
        let select =
            "SELECT concat(current_setting('app.current_user_id', true), current_setting('idempotency.owner', true)),
                             current_setting('app.idempotency_token', true),
                             current_setting('idle_in_transaction_session_timeout'),
                             (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
                             (SELECT count(*) FROM pg_prepared_statements)";
        // Two statements; in an open transaction they would have the same time.
        let [first, second] = [
            connection.query_typed_one("SELECT now()::text", &[]).await.expect("a time").get::<_, String>(0),
            connection.query_typed_one("SELECT now()::text", &[]).await.expect("a time").get::<_, String>(0),
        ];
        assert_ne!(first, second, "a transaction is open");
        let row = connection.query_typed_one(select, &[]).await.expect("the settings");
        assert_eq!(row.get::<_, Option<&str>>(0).unwrap_or_default(), "");
        assert_eq!(row.get::<_, Option<&str>>(1).unwrap_or_default(), "");
        assert_eq!((row.get::<_, &str>(2), row.get::<_, i64>(3), row.get::<_, i64>(4)), ("0", 0, 0));
    }
}

#[tokio::test]
async fn are_returned_clean_whatever_the_outcome_of_the_call() {
    let database = Database::new().await;
    let pool = database.pool(1);
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let project = call.insert().await?;
        match call.name.as_str() {
            "fail" => Err(Status::not_found("not now")),
            "panic" => panic!("as it was told"),
            "refused" => {
                let _ = call.transaction().execute("SELECT 1 / 0", &[]).await;
                Ok(project)
            }
            "savepoint" => {
                drop(call.transaction().savepoint().await?);
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
    let (pool, gate) = (database.pool(8), Arc::new(Semaphore::new(0)));
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
    until("the duplicates return their connections", async || pool.status().available == pool.status().size - 3).await;
    assert_eq!(open_transactions(&database.owner().await).await, 3);
    gate.add_permits(3);
    for call in calls {
        call.await.expect("no panic").expect("a call");
    }
    until("all are back", async || pool.status().available == pool.status().size).await;
}

/// BEGIN is sent with the claim, and COMMIT with the record.
#[tokio::test]
async fn take_one_round_trip_to_begin_and_one_to_commit() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let service = Service::new(&database, pool.clone(), |call: Call| async move { call.insert().await }).await;
    drop(pool.get().await.expect("a connection"));
    let mut before = proxy.round_trips();
    let mut trips = || {
        let now = proxy.round_trips();
        now - std::mem::replace(&mut before, now)
    };
    service.create("shop").await.expect("a call");
    assert_eq!(trips(), 3, "claim, insert, commit");
    service.create("shop").await.expect("a replay");
    // The ROLLBACK follows the answer, and no caller waits for it.
    until("the connection is back", async || pool.status().available == 1).await;
    assert_eq!(trips(), 2, "replay, and ROLLBACK behind it");
    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(trips(), 3, "begin, insert, commit");
}

#[tokio::test]
async fn a_call_whose_connection_is_terminated_leaves_nothing() {
    let database = Database::new().await;
    let owner = Arc::new(database.owner().await);
    let killer = Arc::clone(&owner);
    let service = Service::new(&database, database.pool(2), move |call: Call| {
        let owner = Arc::clone(&killer);
        async move {
            let project = call.insert().await?;
            if call.name == "lost" {
                let backend: i32 = call.transaction().query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
                owner.query_one("SELECT pg_terminate_backend($1)", &[&backend]).await.expect("it is killed");
            }
            Ok(project)
        }
    })
    .await;
    // Whether the handler notices or not.
    assert_eq!(reason(service.create("lost").await), Reason::StoreUnavailable);
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    service.create("shop").await.expect("the key is free");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

#[tokio::test]
async fn a_pooled_connection_that_was_terminated_is_replaced() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = database.pool(3);
    let service = Service::new(&database, pool.clone(), |call: Call| async move { call.insert().await }).await;
    let connections = [pool.get().await, pool.get().await, pool.get().await];
    drop(connections);
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    owner.batch_execute(kill).await.expect("they are killed");
    service.create("shop").await.expect("a call");
    assert_eq!((rows(&owner).await, service.runs()), ([1, 1, 1], 1));
}

#[tokio::test]
async fn a_call_is_refused_if_there_is_no_connection() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let service = Service::new(&database, pool, |call: Call| async move { call.insert().await }).await;
    proxy.cut();
    for key in [service.key, None] {
        let service = service.with_key(key);
        assert_eq!(reason(service.create("shop").await), Reason::StoreUnavailable);
    }
    assert_eq!(service.runs(), 0);
    proxy.mend();
    service.create("shop").await.expect("a call");
}

/// A process that hangs, or was cut off, does not hold its key for ever: the server ends a transaction that is idle for
/// too long, however long the lease of a reservation is.
#[tokio::test]
async fn the_server_ends_a_transaction_that_is_idle_for_too_long() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let describe = |procedure: tonic_idempotency::policy::ProcedureBuilder| {
        procedure.transaction_idle(Duration::from_millis(300)).lease(Duration::from_secs(3600))
    };
    let service = Service::with(&database, database.pool(6), describe, move |call: Call| {
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

#[tokio::test]
async fn a_call_whose_connection_is_cut_leaves_nothing() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(2).await;
    let proxy = Arc::new(proxy);
    let cutter = Arc::clone(&proxy);
    let service = Service::new(&database, pool, move |call: Call| {
        let proxy = Arc::clone(&cutter);
        async move {
            let project = call.insert().await?;
            if call.name == "cut" {
                proxy.cut_connections();
                while call.transaction().query("SELECT 1", &[]).await.is_ok() {}
                return Err(Status::internal("something is wrong"));
            }
            Ok(project)
        }
    })
    .await;
    assert_eq!(service.create("cut").await.expect_err("it fails").code(), Code::Internal);
    assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
    service.create("shop").await.expect("the key is free");
}
