//! Calls without a key whose client hangs up, and transactions that are dropped.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::join_all};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tokio_postgres::Client;
use tonic::Status;
use tonic_idempotency::{
    Transaction,
    store::{CallSession, PostgresStore, Store as _, TransactionErrorKind, TransactionOptions},
};
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::{
    connections::assert_clean,
    harness::{Call, Service, all_have_ended, open_transactions, rows},
};

/// Counts the connections that a pool opens.
const COUNT: &str = "SELECT nextval('public.connections')";

async fn database() -> Database {
    let database = Database::new().await;
    let make = "CREATE SEQUENCE public.connections; GRANT ALL ON SEQUENCE public.connections TO PUBLIC;
                CREATE TABLE public.labels (label text); GRANT ALL ON public.labels TO PUBLIC";
    database.owner().await.batch_execute(make).await.expect("the sequence");
    database
}

async fn opened(owner: &Client) -> i64 {
    owner.query_one("SELECT last_value FROM public.connections", &[]).await.expect("the count").get(0)
}

/// A handler of this suite: runs `statement` and waits until its client hangs up.
async fn hang(call: Call, statement: &str) -> Result<Uuid, Status> {
    call.insert().await?;
    call.transaction().batch_execute(statement).await?;
    std::future::pending().await
}

/// Resets the call, once its handler runs.
async fn reset(service: &Service) {
    let runs = service.runs();
    let call = service.with_key(None).spawn("shop");
    until("the handler runs", async || service.runs() > runs).await;
    call.abort();
    drop(call.await);
}

#[tokio::test]
async fn open_no_connections_one_by_one() {
    let database = database().await;
    let owner = database.owner().await;
    let pool = database.pool_with(2, COUNT);
    let service = Service::new(&database, pool.clone(), |call: Call| hang(call, "SELECT 1")).await;
    for _ in 0..50 {
        reset(&service).await;
    }
    all_have_ended(&owner).await;
    assert!(opened(&owner).await <= 2, "{} connections", opened(&owner).await);
    assert_clean(&pool).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// At any moment: while the transaction is begun, while the handler runs, and while it is committed or rolled back.
#[tokio::test]
async fn open_no_connections_whatever_they_interrupt() {
    let database = database().await;
    let owner = database.owner().await;
    let pool = database.pool_with(2, COUNT);
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let project = call.insert().await?;
        if call.name == "shop" { Ok(project) } else { Err(Status::not_found("not now")) }
    })
    .await;
    drop([pool.get().await.expect("a connection"), pool.get().await.expect("a connection")]);
    let without_key = service.with_key(None);
    let started = Instant::now();
    without_key.create("shop").await.expect("a call");
    let takes = started.elapsed();
    for reset in 0..100 {
        let name = if reset % 2 == 0 { "shop" } else { "fail" };
        drop(timeout(takes * reset / 50, without_key.create(name)).await);
    }
    all_have_ended(&owner).await;
    assert_eq!(opened(&owner).await, 2);
    assert_clean(&pool).await;
}

#[tokio::test]
async fn open_no_connection_while_a_statement_runs_that_ends_in_time() {
    let database = database().await;
    let owner = database.owner().await;
    let pool = database.pool_with(1, COUNT);
    let service = Service::new(&database, pool.clone(), |call: Call| hang(call, "SELECT pg_sleep(0.05)")).await;
    for _ in 0..5 {
        reset(&service).await;
    }
    all_have_ended(&owner).await;
    assert_eq!(opened(&owner).await, 1);
    assert_clean(&pool).await;
}

/// The connection is closed, and the statement does not go on without it.
#[tokio::test]
async fn end_a_statement_that_does_not_end_in_time() {
    let database = database().await;
    let owner = database.owner().await;
    let pool = database.pool_with(1, COUNT);
    drop(pool.get().await.expect("a connection"));
    let impatient = store(&pool, Duration::from_secs(2));
    let service = Service::built(
        &database,
        pool.clone(),
        |procedure| procedure,
        |builder| builder.store(impatient),
        |call: Call| hang(call, "SELECT pg_sleep(3600)"),
    )
    .await;
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(3600)' AND state = 'active'
                    AND datname = current_database()";
    let call = service.with_key(None).spawn("shop");
    let sleeps = async || owner.query_one(sleeping, &[]).await.expect("the activity").get::<_, i64>(0) == 1;
    until("the statement runs", sleeps).await;
    call.abort();
    all_have_ended(&owner).await;
    assert_clean(&pool).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

fn store(pool: &deadpool_postgres::Pool, timeout: Duration) -> PostgresStore {
    PostgresStore::new(pool.clone(), organization::resource_types()).timeout(timeout)
}

/// What a task that the handler has spawned holds, beside the handle, without polling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Copy,
    Nothing,
    Statement,
}

#[tokio::test]
async fn end_the_transaction_of_a_handle_that_lives_on() {
    let ends = async |held| {
        let database = database().await;
        let owner = database.owner().await;
        let pool = database.pool_with(1, COUNT);
        let (kept, gate) = (Arc::new(Mutex::new(None::<Transaction>)), Arc::new(Semaphore::new(0)));
        let (keep, opens) = (Arc::clone(&kept), Arc::clone(&gate));
        drop(pool.get().await.expect("a connection"));
        let impatient = store(&pool, Duration::from_secs(5));
        let service = Service::built(
            &database,
            pool.clone(),
            |procedure| procedure,
            |builder| builder.store(impatient),
            move |call: Call| {
                let (keep, gate) = (Arc::clone(&keep), Arc::clone(&opens));
                async move {
                    let project = call.insert().await?;
                    let transaction = call.transaction();
                    tokio::spawn(async move {
                        let copy = transaction.copy_in::<_, Bytes>("COPY public.labels FROM STDIN");
                        let copy = if held == Held::Copy { Some(copy.await.expect("a copy")) } else { None };
                        let mut statement = Box::pin(transaction.batch_execute("SELECT 1"));
                        if held == Held::Statement {
                            assert!((&mut statement).now_or_never().is_none(), "it has an answer to wait for");
                        }
                        *keep.lock().expect("no panic") = Some(transaction.clone());
                        gate.acquire().await.expect("it is not closed").forget();
                        assert_eq!(statement.await.map_err(|dead| dead.kind()), Err(TransactionErrorKind::Ended));
                        drop(copy);
                    });
                    std::future::pending::<()>().await;
                    Ok(project)
                }
            },
        )
        .await;
        let call = service.with_key(None).spawn("shop");
        until("the handle is kept", async || kept.lock().expect("no panic").is_some()).await;
        assert_eq!(open_transactions(&owner).await, 1);
        call.abort();
        all_have_ended(&owner).await;
        let transaction = kept.lock().expect("no panic").take().expect("the handle");
        let dead = transaction.query("SELECT 1", &[]).await.expect_err("the call has ended");
        assert_eq!(dead.kind(), TransactionErrorKind::Ended);
        gate.add_permits(1);
        drop(transaction);
        drop(pool.get().await.expect("the connection, which was not replaced"));
        assert_clean(&pool).await;
        assert_eq!((opened(&owner).await, rows(&owner).await), (1, [0, 0, 0]), "{held:?}");
    };
    join_all([Held::Copy, Held::Nothing, Held::Statement].map(ends)).await;
}

/// There is no runtime to roll back in, so the connection is closed.
#[tokio::test]
async fn close_the_connection_outside_of_a_runtime() {
    let database = database().await;
    let owner = database.owner().await;
    let pool = database.pool_with(1, COUNT);
    let store = store(&pool, Duration::from_secs(30));
    let options = TransactionOptions::default();
    let transaction = store.begin_without_key(None, &CallSession::default(), options).await.expect("a transaction");
    assert_eq!(open_transactions(&owner).await, 1);
    std::thread::spawn(move || drop(transaction)).join().expect("no panic");
    all_have_ended(&owner).await;
    drop(pool.get().await.expect("a new connection"));
    assert_eq!(opened(&owner).await, 2);
}
