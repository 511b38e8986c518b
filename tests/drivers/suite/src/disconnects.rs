//! Calls whose clients hang up: their statements end on the server, and their connections return.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::Client;
use tonic::Status;
use tonic_idempotency::{
    policy::{DisconnectPolicy, ProcedureBuilder},
    store::SqlStore,
};
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::{
    Call, Service, Stack, all_have_ended, assert_clean, patient, rows, status, store, unchecked_pool_with,
    until_statement,
};

/// A database with a pool of one connection that counts how many it opens.
pub async fn counting<S: Stack>() -> (Database, Client, S::Pool) {
    let database = Database::new().await;
    let owner = database.owner().await;
    let make = "CREATE SEQUENCE public.connections; GRANT ALL ON SEQUENCE public.connections TO PUBLIC";
    owner.batch_execute(make).await.expect("the sequence");
    let pool = unchecked_pool_with::<S>(&database, 1, "SELECT nextval('public.connections')");
    (database, owner, pool)
}

/// How many connections the pool has opened.
pub async fn opened(owner: &Client) -> i64 {
    owner.query_one("SELECT last_value FROM public.connections", &[]).await.expect("the count").get(0)
}

/// A service whose handler runs `statement` and waits until its client hangs up.
pub async fn hanging<S: Stack>(database: &Database, store: SqlStore<S::Driver>, statement: &'static str) -> Service {
    let describe = |procedure: ProcedureBuilder| procedure.on_disconnect(DisconnectPolicy::RollBack);
    Service::built(
        database,
        store,
        describe,
        |builder| builder,
        move |call: Call<S>| async move {
            call.insert().await?;
            call.execute(statement).await.map_err(status)?;
            std::future::pending::<Result<Uuid, Status>>().await
        },
    )
    .await
}

/// Waits until the statement runs or has run, and hangs up.
pub async fn hang_up(service: &Service, owner: &Client, statement: &str) {
    let call = service.spawn("shop");
    // A short one may have ended before it was seen.
    let states = ["idle in transaction", "active"];
    until_statement(owner, statement, if statement == "SELECT 1" { &states[..1] } else { &states }).await;
    call.abort();
    drop(call.await);
    all_have_ended(owner).await;
}

pub async fn roll_back_and_keep_the_connection<S: Stack>() {
    for statement in ["SELECT 1", "SELECT pg_sleep(0.05)"] {
        let (database, owner, pool) = counting::<S>().await;
        let service = hanging::<S>(&database, patient::<S>(pool.clone()), statement).await;
        for key in [service.key, None] {
            hang_up(&service.with_key(key), &owner, statement).await;
            assert_clean::<S>(&pool).await;
        }
        assert_eq!((opened(&owner).await, rows(&owner).await), (1, [0, 0, 0]), "{statement}");
    }
}

/// A statement that would hold its locks without a client.
const SLEEP: &str = "SELECT pg_sleep(3600)";

/// Whatever the timeout of the store is.
pub async fn cancel_the_statement_that_runs_and_keep_the_connection<S: Stack>() {
    let (database, owner, pool) = counting::<S>().await;
    let service = hanging::<S>(&database, patient::<S>(pool.clone()), SLEEP).await;
    for key in [service.key, None] {
        hang_up(&service.with_key(key), &owner, SLEEP).await;
        assert_clean::<S>(&pool).await;
    }
    assert_eq!((opened(&owner).await, rows(&owner).await), (1, [0, 0, 0]));
}

/// The connection is kept or closed.
pub async fn end_the_statement_that_does_not_end_in_time<S: Stack>() {
    let (database, owner, pool) = counting::<S>().await;
    let impatient = store::<S>(pool.clone()).timeout(Duration::from_secs(2));
    let service = hanging::<S>(&database, impatient, SLEEP).await;
    for key in [service.key, None] {
        hang_up(&service.with_key(key), &owner, SLEEP).await;
        assert_clean::<S>(&pool).await;
    }
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// At any moment: while the transaction is begun, while the handler runs, and while it is committed or rolled back.
pub async fn leave_clean_connections_whatever_they_interrupt<S: Stack>() {
    let (database, owner, pool) = counting::<S>().await;
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let project = call.insert().await?;
        if call.name == "shop" { Ok(project) } else { Err(Status::not_found("not now")) }
    })
    .await;
    let without_key = service.with_key(None);
    without_key.create("shop").await.expect("a call");
    let started = Instant::now();
    without_key.create("shop").await.expect("a call");
    let takes = started.elapsed().max(Duration::from_millis(1));
    for name in ["fail", "shop"] {
        let mut hung_up = 0;
        for reset in 0..100 {
            hung_up += i64::from(timeout(takes * reset / 50, without_key.create(name)).await.is_err());
        }
        all_have_ended(&owner).await;
        assert_clean::<S>(&pool).await;
        // A connection is closed only if its client leaves while a COMMIT is under way.
        let closed = if name == "shop" { hung_up } else { 0 };
        let opened = opened(&owner).await;
        assert!(opened <= 1 + closed, "{name}: {opened} connections, {hung_up} clients that left");
    }
}

/// By default a call goes on without its client.
pub async fn do_not_cancel_a_handler_that_goes_on<S: Stack>() {
    let (database, owner, pool) = counting::<S>().await;
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        call.execute("SELECT pg_sleep(0.5)").await.map_err(status)?;
        call.insert().await
    })
    .await;
    let call = service.spawn("shop");
    until("the handler runs", async || service.runs() == 1).await;
    call.abort();
    until("it is committed", async || rows(&owner).await == [1, 1, 1]).await;
    assert_clean::<S>(&pool).await;
}

/// Whatever the moment, a retry with the same key finds the outcome, or a key that is free.
pub async fn leave_an_effect_with_its_record_or_neither<S: Stack>() {
    let (database, owner, pool) = counting::<S>().await;
    let describe = |procedure: ProcedureBuilder| procedure.on_disconnect(DisconnectPolicy::RollBack);
    let script = |call: Call<S>| async move { call.insert().await };
    let service = Service::with(&database, pool.clone(), describe, script).await;
    service.with_new_key().create("shop").await.expect("a call");
    let started = Instant::now();
    service.with_new_key().create("shop").await.expect("a call");
    let takes = started.elapsed().max(Duration::from_millis(1));
    for reset in 1..=50 {
        let service = service.with_new_key();
        drop(timeout(takes * reset / 25, service.create("shop")).await);
        until("there is an answer", async || service.create("shop").await.is_ok()).await;
        let calls = i64::from(reset) + 2;
        assert_eq!(rows(&owner).await, [calls, calls, calls]);
    }
    assert_clean::<S>(&pool).await;
}
