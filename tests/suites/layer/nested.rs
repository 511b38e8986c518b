//! Operations inside of others, and more at once than may run.

use tokio::sync::{Semaphore, oneshot};
use tonic_idempotency::run::{self, Call, Operation, RunError};

use crate::{
    prelude::*,
    run::{CHARGE, ChargeError, Charged, billing, bytes, charge, never, reason},
};

const SHIP: &str = "billing.v1/Ship";

/// Two operations in these modes, on a pool of this size.
async fn two(database: &Database, size: usize, modes: [Mode; 2]) -> [Operation<run::Bytes>; 2] {
    let [outer, inner] = modes;
    let layer = IdempotencyLayer::builder([])
        .store(postgres(database.pool(size)))
        .procedure(Procedure::operation(CHARGE).mode(outer))
        .procedure(Procedure::operation(SHIP).mode(inner))
        .build()
        .expect("operations");
    [CHARGE, SHIP].map(|name| layer.operation(name).expect("it is declared"))
}

/// Runs the inner operation inside of the outer one.
async fn nest([outer, inner]: [Operation<run::Bytes>; 2], id: &str, is_within: bool) -> Charged<Vec<u8>> {
    nest_for(billing(), [outer, inner], id, is_within).await
}

async fn nest_for(
    caller: Caller,
    [outer, inner]: [Operation<run::Bytes>; 2],
    id: &str,
    is_within: bool,
) -> Charged<Vec<u8>> {
    let its_id = id.to_owned();
    let handler = move |call: Call| async move {
        let ship = |_| async { Ok::<_, ChargeError>(b"shipped".to_vec()) };
        let shipped = match is_within {
            true => inner.run_within(&call.execution(), "ship", b"", ship).await,
            false => inner.run(call.caller(), &its_id, b"", ship).await,
        };
        match shipped {
            Ok(shipped) => Ok(shipped.into_inner()),
            Err(RunError::Refused { reason: Reason::StoreFailed, message, .. }) => {
                assert!(message.contains("two connections for transactions"), "{message}");
                Err(ChargeError::CardExpired)
            }
            Err(_) => Err(ChargeError::Network),
        }
    };
    outer.run(&caller, id, b"", handler).await
}

/// Runs three operations, each inside of the one before, and tells what has become of the innermost.
async fn nest_three([outer, middle, inner]: [Operation<run::Bytes>; 3]) -> Vec<u8> {
    let handler = move |call: Call| async move {
        let between = move |call: Call| async move {
            let innermost = |_| async { Ok::<_, ChargeError>(b"done".to_vec()) };
            match inner.run_within(&call.execution(), "third", b"", innermost).await {
                Err(RunError::Refused { reason: Reason::StoreFailed, .. }) => Ok(b"refused".to_vec()),
                ended => ended.map(run::Outcome::into_inner).map_err(|_| ChargeError::Network),
            }
        };
        let ended = middle.run_within(&call.execution(), "second", b"", between).await;
        ended.map(run::Outcome::into_inner).map_err(|_| ChargeError::Network)
    };
    outer.run(&billing(), "1", b"", handler).await.expect("it ends").into_inner()
}

/// Each outer transaction holds a connection that it does not give back before the inner one has ended.
#[tokio::test]
async fn transactions_end_whatever_the_size_of_the_pool() {
    let database = Database::new().await;
    for (size, is_within, users) in
        [(2, true, 1), (3, true, 1), (4, true, 1), (4, false, 1), (4, true, 200), (8, false, 10), (16, true, 200)]
    {
        let both = two(&database, size, [Mode::Transactional; 2]).await;
        let mut runs = JoinSet::new();
        for number in 0..200 {
            let both = both.clone();
            let user = tonic_idempotency::UserId::from_text(&format!("user {}", number % users)).expect("an id");
            let id = format!("{size} {is_within} {users} {number}");
            runs.spawn(async move { nest_for(Caller::new(user), both, &id, is_within).await });
        }
        for ended in runs.join_all().await {
            match size {
                // One of its connections is for claims.
                2 => {
                    assert!(matches!(ended, Err(RunError::Failed { error: ChargeError::CardExpired, .. })), "{ended:?}")
                }
                _ => assert_eq!(ended.expect("it ends").into_inner(), b"shipped", "{size}"),
            }
        }
    }
}

/// A reserved operation between two transactional ones holds none.
#[tokio::test]
async fn a_third_transaction_is_refused_at_once() {
    let database = Database::new().await;
    let [outer, inner] = two(&database, 16, [Mode::Transactional; 2]).await;
    assert_eq!(nest_three([outer, inner.clone(), inner]).await, b"refused");
    let [transactional, reserved] = two(&database, 16, [Mode::Transactional, Mode::Reserved]).await;
    for (outer, inner) in [(&transactional, &reserved), (&reserved, &transactional), (&reserved, &reserved)] {
        nest([outer.clone(), inner.clone()], &Uuid::new_v4().to_string(), true).await.expect("it ends");
    }
}

/// They hold nothing that it waits for.
#[tokio::test]
async fn a_transaction_on_a_pool_of_its_own_is_not_inside_of_others() {
    let database = Database::new().await;
    let [outer, _] = two(&database, 2, [Mode::Transactional; 2]).await;
    let [_, middle] = two(&database, 2, [Mode::Transactional; 2]).await;
    let [_, inner] = two(&database, 2, [Mode::Transactional; 2]).await;
    assert_eq!(nest_three([outer, middle, inner]).await, b"done");
}

#[tokio::test]
async fn those_that_a_caller_may_not_have_at_once_wait_for_their_turn() {
    let database = Database::new().await;
    let [transactional, _] = two(&database, 4, [Mode::Transactional; 2]).await;
    // Of both modes: they are calls of one caller.
    let both = two(&database, 8, [Mode::Transactional, Mode::Reserved]).await;
    for operations in [vec![bytes(|it| it)], vec![transactional], both.into()] {
        let ids: Vec<_> = (0..400).map(|_| Uuid::new_v4().to_string()).collect();
        let runs = ids.iter().zip(operations.iter().cycle()).map(|(id, it)| charge(it, id, b"", Vec::new()));
        let ended = futures_util::future::join_all(runs).await;
        assert!(ended.iter().all(Result::is_ok), "{:?}", ended.iter().find(|ended| ended.is_err()));
    }
}

/// A layer in which one run at a time is allowed, and a run that goes on until its sender is dropped.
async fn full() -> (IdempotencyLayer, Operation<run::Bytes>, oneshot::Sender<()>, JoinHandle<Charged<Vec<u8>>>) {
    let limits = Limits { in_flight: Limit::new(2, 1), ..Limits::default() };
    let builder = IdempotencyLayer::builder([]).store(MemoryStore::new()).limits(limits);
    let layer = builder.procedure(Procedure::operation(CHARGE)).build().expect("an operation");
    let operation: Operation<run::Bytes> = layer.operation(CHARGE).expect("it is declared");
    let (end, ends) = oneshot::channel::<()>();
    let begun = Arc::new(Semaphore::new(0));
    let (first, begins) = (operation.clone(), Arc::clone(&begun));
    let running = tokio::spawn(async move {
        let handler = move |_| async move {
            begins.add_permits(1);
            let _ = ends.await;
            Ok(Vec::new())
        };
        first.run(&billing(), "1", b"", handler).await
    });
    begun.acquire().await.expect("it is not closed").forget();
    (layer, operation, end, running)
}

#[tokio::test]
async fn a_run_that_waits_and_is_dropped_leaves_the_line() {
    let (_, operation, end, running) = full().await;
    let billing = billing();
    let mut second = Box::pin(operation.run(&billing, "2", b"", never::<Vec<u8>>));
    assert!(futures_util::poll!(&mut second).is_pending());
    let mut third = Box::pin(charge(&operation, "3", b"", Vec::new()));
    assert!(futures_util::poll!(&mut third).is_pending());
    drop(second);
    drop(end);
    running.await.expect("no panic").expect("it ends");
    third.await.expect("it is its turn");
}

/// The place is that of the handler, which goes on without its consumer.
#[tokio::test]
async fn a_run_whose_consumer_has_gone_keeps_its_place() {
    let (_, operation, end, running) = full().await;
    running.abort();
    running.await.expect_err("it is gone");
    let mut second = Box::pin(charge(&operation, "2", b"", Vec::new()));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(end);
    second.await.expect("it is its turn");
}

#[tokio::test]
async fn a_shutdown_ends_the_line() {
    let (layer, operation, end, running) = full().await;
    let waiting = tokio::spawn(async move { operation.run(&billing(), "2", b"", never::<Vec<u8>>).await });
    let shutdown = tokio::spawn(async move { layer.shutdown(Duration::from_secs(60)).await });
    assert_eq!(reason(waiting.await.expect("no panic")), Reason::ShuttingDown);
    drop(end);
    running.await.expect("no panic").expect("it ends");
    assert!(shutdown.await.expect("no panic").unfinished.is_empty());
}

/// It would wait for the run around it.
#[tokio::test]
async fn a_run_inside_of_another_one_does_not_stand_in_line() {
    let limits = Limits { in_flight: Limit::new(4, 2), ..Limits::default() };
    let builder = IdempotencyLayer::builder([]).store(MemoryStore::new()).limits(limits);
    let builder = builder.procedure(Procedure::operation(CHARGE)).procedure(Procedure::operation(SHIP));
    let layer = builder.build().expect("operations");
    let both: [Operation<run::Bytes>; 2] = [CHARGE, SHIP].map(|name| layer.operation(name).expect("it is declared"));
    for is_within in [true, false] {
        nest(both.clone(), &format!("alone {is_within}"), is_within).await.expect("two calls");
        // Both places are taken, and each further call is beyond the limit: it is refused, and does not wait.
        let ids = ["one", "two"].map(|id| format!("{id} {is_within}"));
        let ended = futures_util::future::join_all(ids.iter().map(|id| nest(both.clone(), id, is_within))).await;
        assert!(ended.iter().any(Result::is_err), "{ended:?}");
    }
}
