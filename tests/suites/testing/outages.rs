//! A store that is away for a time.

use tonic_idempotency::{layer::BuildError, testing::HarnessStore};
use tonic_idempotency_tests::proceeding;

use super::prelude::*;
use super::{
    assertions::panic_of,
    harness::{Orders, call, create, harness, hold, on, order, running, transactional},
};

#[tokio::test]
async fn refuses_calls_until_it_is_back() {
    for describe in [transactional, |procedure| procedure] {
        let (harness, mut orders) = harness(create, describe);
        let key = Uuid::new_v4();
        harness.set_store_available(false);
        assert_eq!(call(&harness, &orders, key, "lamp").await.refused_with(Reason::StoreUnavailable).runs(), 0);
        harness.restart().await;
        call(&harness, &orders, key, "lamp").await.refused_with(Reason::StoreUnavailable);
        let without_key = harness.call_without_key(order("lamp"), |request| orders.create_order(request)).await;
        harness.record(key).await.absent();
        harness.set_store_available(true);
        call(&harness, &orders, key, "lamp").await.executed_once();
        // A transactional call needs the store even without a key.
        assert_eq!(without_key.reason().is_some(), harness.runs() == 1);
    }
}

fn degrading() -> (Harness, OrderServiceClient<tonic_idempotency::testing::InProcess>) {
    let build = |store: HarnessStore<MemoryStore>| -> Result<_, BuildError> {
        IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).policies(proceeding()).build()
    };
    let harness = Harness::with_layer(MemoryStore::new(), build, OrderServiceServer::new(Orders(create)));
    let orders = OrderServiceClient::new(harness.channel());
    (harness, orders)
}

#[tokio::test]
async fn lets_calls_run_unprotected_if_the_layer_degrades() {
    let (harness, orders) = degrading();
    let key = Uuid::new_v4();
    harness.set_store_available(false);
    for runs in 1..3 {
        call(&harness, &orders, key, "lamp").await.executed_unprotected();
        assert_eq!(harness.runs(), runs);
    }
    harness.set_store_available(true);
    call(&harness, &orders, key, "lamp").await.executed_once();
}

#[tokio::test]
async fn does_not_let_calls_run_unprotected_while_it_is_there() {
    let (harness, mut orders) = degrading();
    let said =
        panic_of(async || _ = call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_unprotected()).await;
    let expected = "expected the handler to run once and succeed, without the layer's protection; but the handler ran once, and the call \
                    succeeded; idempotency-status: completed";
    assert_eq!(said, expected);
    harness.set_store_available(false);
    let said = panic_of(async || _ = call(&harness, &orders, Uuid::new_v4(), "nothing").await.executed_unprotected());
    assert!(said.await.contains("and the call failed (NOT_FOUND: no such item)"));
    let said = panic_of(async || _ = call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once()).await;
    assert!(said.contains("the layer did not protect the call: does it have a store that answers"), "{said}");
    // A call without a key is never protected.
    let without_key = harness.call_without_key(order("lamp"), |request| orders.create_order(request)).await;
    let said = panic_of(async || _ = without_key.executed_unprotected()).await;
    assert!(said.contains("but the handler ran once, and the call succeeded"), "{said}");
}

/// The client has its response, and the layer tries to record the outcome until the store takes it.
#[tokio::test]
async fn takes_the_outcome_of_a_reserved_call_when_it_is_back() {
    let gate = Arc::new(Semaphore::new(0));
    let (harness, orders) = harness(hold(&gate), |procedure| procedure);
    let key = Uuid::new_v4();
    let first = running(&harness, &orders, key, "lamp").await;
    harness.set_store_available(false);
    gate.add_permits(1);
    let first = first.await.expect("no panic").executed_once().into_message();
    assert_eq!(harness.record(key).await, Record::Reserved);
    harness.set_store_available(true);
    until("it is recorded", async || harness.record(key).await != Record::Reserved).await;
    assert_eq!(harness.record(key).await.completed::<CreateOrderResponse>(), first);
}

#[tokio::test]
async fn commits_no_transaction_that_was_open_before() {
    let database = Database::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let (harness, orders) = on(database.store(), hold(&gate), transactional);
    let key = Uuid::new_v4();
    let first = running(&harness, &orders, key, "lamp").await;
    harness.set_store_available(false);
    gate.add_permits(2);
    assert_eq!(first.await.expect("no panic").refused_with(Reason::StoreUnavailable).runs(), 1);
    harness.record(key).await.absent();
    harness.set_store_available(true);
    call(&harness, &orders, key, "lamp").await.executed_once();
}

/// A transactional call without a key has no record, but its writes still need the store.
#[tokio::test]
async fn commits_no_transaction_without_a_key() {
    let gate = Arc::new(Semaphore::new(0));
    let (harness, mut orders) = harness(hold(&gate), transactional);
    let ordered = harness.call_without_key(order("lamp"), |request| orders.create_order(request));
    let cut = async {
        until("the handler runs", async || harness.runs() == 1).await;
        harness.set_store_available(false);
        gate.add_permits(1);
    };
    tokio::join!(ordered, cut).0.refused_with(Reason::StoreUnavailable);
}
