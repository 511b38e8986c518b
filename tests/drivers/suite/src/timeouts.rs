//! Handlers that take too long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::{Code, Status};
use tonic_idempotency::{policy::ProcedureBuilder, rejection::Reason};
use tonic_idempotency_tests::{Database, until};
use tonic_types::StatusExt as _;
use uuid::Uuid;

use crate::{
    Call, Seen, Service, Stack, all_have_ended, assert_clean, disconnects::counting, pool, rows, status, store,
};

const TIMEOUT: Duration = Duration::from_millis(300);

fn short(procedure: ProcedureBuilder) -> ProcedureBuilder {
    procedure.handler_timeout(TIMEOUT)
}

/// Asserts that a call was rolled back because its handler took too long.
fn assert_rolled_back(answer: Result<Seen, Status>) {
    let status = answer.expect_err("it takes too long");
    assert_eq!((status.code(), Reason::of(&status)), (Code::DeadlineExceeded, Some(Reason::HandlerTimeout)));
    let info = status.get_details_error_info().expect("its reason");
    assert_eq!(info.metadata.get("outcome").map(String::as_str), Some("rolled_back"));
    let delay = status.get_details_retry_info().and_then(|info| info.retry_delay);
    assert_eq!(delay, Some(Duration::from_secs(1)));
    assert!(!status.metadata().contains_key("idempotency-outcome"));
}

/// The server ends the statement that it waits for, once the store's time is over.
pub async fn roll_back_a_handler_that_hangs<S: Stack>() {
    for statement in ["SELECT 1", "SELECT pg_sleep(3600)"] {
        let (database, owner, pool) = counting::<S>().await;
        let impatient = store::<S>(pool.clone()).timeout(Duration::from_secs(2));
        let script = move |call: Call<S>| async move {
            let project = call.insert().await?;
            assert!(call.execution.time_left().expect("it is bounded") <= TIMEOUT);
            if call.name == "hang" {
                call.execute(statement).await.map_err(status)?;
                std::future::pending::<()>().await;
            }
            Ok(project)
        };
        let service = Service::built(&database, impatient, short, |builder| builder, script).await;
        for key in [service.key, None] {
            let service = service.with_key(key);
            assert_rolled_back(service.create("hang").await);
            all_have_ended(&owner).await;
            assert_eq!(rows(&owner).await[2], 0, "{statement}");
            assert_clean::<S>(&pool).await;
        }
        // The key is free, for another request, too.
        service.create("shop").await.expect("a call");
        assert_eq!(rows(&owner).await, [1, 1, 1]);
    }
}

/// A task of the handler has the connection, or a handle, for as long as it likes: whatever it writes, and however it ends, is not committed.
pub async fn commit_nothing_of_a_task_that_goes_on<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let (sender, mut tasks) = tokio::sync::mpsc::unbounded_channel();
    let pool = pool::<S>(&database, 2);
    let impatient = store::<S>(pool.clone()).timeout(Duration::from_secs(2));
    let script = move |call: Call<S>| {
        let (sender, gate) = (sender.clone(), Arc::clone(&opens));
        async move {
            let project = call.insert().await?;
            if call.name == "shop" {
                return Ok(project);
            }
            let mut connection = call.connection().await.map_err(status)?;
            let task = tokio::spawn(async move {
                gate.acquire().await.expect("it is not closed").forget();
                // It may be dead, or in a transaction that will be rolled back.
                let _ = S::insert(&mut connection, "late").await;
            });
            sender.send(task).expect("the test waits");
            std::future::pending::<Result<Uuid, Status>>().await
        }
    };
    let service = Service::built(&database, impatient, short, |builder| builder, script).await;
    for key in [service.key, None] {
        assert_rolled_back(service.with_key(key).create("hang").await);
        gate.add_permits(1);
        tasks.recv().await.expect("a task").await.expect("no panic");
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
    }
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
    assert_clean::<S>(&pool).await;
}

/// Nothing can take its thread from it: its answer waits, and the server ends its transaction when that has idled for long enough.
pub async fn leave_the_key_of_a_handler_that_blocks_to_the_server<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| short(procedure).transaction_idle(TIMEOUT);
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let opens = Arc::clone(&gate);
    let script = move |call: Call<S>| {
        let (gate, is_first) = (Arc::clone(&opens), !begun.swap(true, Ordering::SeqCst));
        async move {
            let project = call.insert().await?;
            if is_first {
                tokio::task::block_in_place(|| {
                    let began = std::time::Instant::now();
                    while gate.try_acquire().map(SemaphorePermit::forget).is_err() {
                        assert!(began.elapsed() < Duration::from_secs(60), "a runtime waits for its threads");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            Ok(project)
        }
    };
    // It keeps its place among the transactions, too.
    let service = Service::with(&database, pool::<S>(&database, 4), describe, script).await;
    let blocked = service.spawn("shop");
    until("the handler runs", async || service.runs() == 1).await;
    let retry = async || service.create("shop").await;
    until("the key is free", async || retry().await.is_ok_and(|seen| !seen.replayed)).await;
    assert!(!blocked.is_finished(), "its answer waits");
    gate.add_permits(1);
    blocked.await.expect("no panic").expect_err("its transaction is gone");
    assert_eq!((rows(&owner).await, service.runs()), ([1, 1, 1], 2));
}
