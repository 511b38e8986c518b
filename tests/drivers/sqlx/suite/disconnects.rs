//! Calls whose clients hang up: their statements end on the server, and their connections return.

use std::time::Duration;

use sqlx::{Executor as _, PgPool};
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;
use tonic::Status;
use tonic_idempotency::policy::{DisconnectPolicy, ProcedureBuilder};
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::harness::{Call, Service, all_have_ended, assert_clean, pool_with, rows};

/// Counts the connections that a pool opens.
const COUNT: &str = "SELECT nextval('public.connections')";

async fn database() -> (Database, Client, PgPool) {
    let database = Database::new().await;
    let owner = database.owner().await;
    let make = "CREATE SEQUENCE public.connections; GRANT ALL ON SEQUENCE public.connections TO PUBLIC";
    owner.batch_execute(make).await.expect("the sequence");
    let pool = pool_with(&database, 1, COUNT);
    (database, owner, pool)
}

async fn opened(owner: &Client) -> i64 {
    owner.query_one("SELECT last_value FROM public.connections", &[]).await.expect("the count").get(0)
}

/// A service whose handler runs `statement` and waits until its client hangs up.
async fn hanging(database: &Database, pool: &PgPool, statement: &'static str) -> Service {
    let describe = |procedure: ProcedureBuilder| procedure.on_disconnect(DisconnectPolicy::RollBack);
    Service::with(database, pool.clone(), describe, move |call: Call| async move {
        call.insert().await?;
        let mut connection = call.connection().await?;
        connection.execute(statement).await.map_err(tonic_idempotency_sqlx::TransactionError::from)?;
        std::future::pending::<Result<Uuid, Status>>().await
    })
    .await
}

/// Waits until the statement runs, and hangs up.
async fn hang_up(service: &Service, owner: &Client, statement: &str) {
    let state = if statement == "SELECT 1" { "idle in transaction" } else { "active" };
    let seen = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = $1 AND state = $2";
    let call = service.spawn("shop");
    let runs = async || owner.query_one(seen, &[&statement, &state]).await.expect("the activity").get::<_, i64>(0) == 1;
    until("the statement runs", runs).await;
    call.abort();
    drop(call.await);
    all_have_ended(owner).await;
}

#[tokio::test]
async fn cancel_the_statement_that_runs_and_keep_the_connection() {
    for statement in ["SELECT 1", "SELECT pg_sleep(0.05)", "SELECT pg_sleep(3600)"] {
        let (database, owner, pool) = database().await;
        let service = hanging(&database, &pool, statement).await;
        for key in [service.key, None] {
            hang_up(&service.with_key(key), &owner, statement).await;
            assert_clean(&pool).await;
        }
        assert_eq!((opened(&owner).await, rows(&owner).await), (1, [0, 0, 0]), "{statement}");
    }
}

/// At any moment: while the transaction is begun, while the handler runs, and while it is committed or rolled back.
#[tokio::test]
async fn leave_clean_connections_whatever_they_interrupt() {
    let (database, owner, pool) = database().await;
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let project = call.insert().await?;
        if call.name == "shop" { Ok(project) } else { Err(Status::not_found("not now")) }
    })
    .await;
    let without_key = service.with_key(None);
    without_key.create("shop").await.expect("a call");
    let started = Instant::now();
    without_key.create("shop").await.expect("a call");
    let takes = started.elapsed().max(Duration::from_millis(1));
    for reset in 0..100 {
        let name = if reset % 2 == 0 { "shop" } else { "fail" };
        drop(timeout(takes * reset / 50, without_key.create(name)).await);
    }
    all_have_ended(&owner).await;
    assert_clean(&pool).await;
    assert_eq!(opened(&owner).await, 1);
}

/// By default a call goes on without its client.
#[tokio::test]
async fn do_not_cancel_a_handler_that_goes_on() {
    let (database, owner, pool) = database().await;
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let sleep = call.connection().await?.execute("SELECT pg_sleep(0.5)").await;
        sleep.map_err(tonic_idempotency_sqlx::TransactionError::from)?;
        call.insert().await
    })
    .await;
    let call = service.spawn("shop");
    until("the handler runs", async || service.runs() == 1).await;
    call.abort();
    until("it is committed", async || rows(&owner).await == [1, 1, 1]).await;
    assert_clean(&pool).await;
}
