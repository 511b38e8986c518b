//! Transactional procedures on a store in memory.

use std::sync::Mutex;

use tonic_idempotency::{Execution, policy::Mode};

use super::harness::{CREATE, call, create, harness, hold, order, running, transactional};
use super::prelude::*;

#[tokio::test]
async fn records_a_call_that_succeeds() {
    let (harness, orders) = harness(create, transactional);
    let key = Uuid::new_v4();
    harness.record(key).await.absent();
    let first = call(&harness, &orders, key, "lamp").await.executed_once().into_message();
    assert_eq!(harness.record(key).await.completed::<CreateOrderResponse>(), first);
    assert_eq!(call(&harness, &orders, key, "lamp").await.replayed().into_message(), first);
    call(&harness, &orders, key, "chair").await.refused_with(Reason::KeyReused);
}

#[tokio::test]
async fn does_not_record_a_call_that_fails_or_panics() {
    let (harness, orders) = harness(create, transactional);
    for (item, code) in [("nothing", Code::NotFound), ("panic", Code::Internal)] {
        let key = Uuid::new_v4();
        call(&harness, &orders, key, item).await.failed_with(code);
        harness.record(key).await.absent();
        call(&harness, &orders, key, "lamp").await.executed_once();
    }
}

/// In a transactional call, an error rolls everything back, even if the handler reports an effect.
#[tokio::test]
async fn does_not_record_a_call_that_fails_after_its_effect() {
    let handler = async |request: Request<CreateOrderRequest>| {
        Execution::from_request(&request).effect_committed();
        create(request).await
    };
    let (harness, orders) = harness(handler, transactional);
    let key = Uuid::new_v4();
    call(&harness, &orders, key, "nothing").await.failed_with(Code::NotFound);
    harness.record(key).await.absent();
}

#[tokio::test]
async fn records_a_final_error() {
    let describe = |procedure| transactional(procedure).final_errors([Code::NotFound]);
    let (harness, orders) = harness(create, describe);
    let key = Uuid::new_v4();
    call(&harness, &orders, key, "nothing").await.failed_with(Code::NotFound);
    assert!(matches!(harness.record(key).await, Record::Failed { .. }));
    call(&harness, &orders, key, "nothing").await.replayed();
}

#[tokio::test]
async fn holds_the_key_while_the_handler_runs() {
    let gate = Arc::new(Semaphore::new(0));
    let (harness, orders) = harness(hold(&gate), transactional);
    let key = Uuid::new_v4();
    let first = running(&harness, &orders, key, "lamp").await;
    assert_eq!(harness.record(key).await, Record::Reserved);
    for item in ["lamp", "chair"] {
        call(&harness, &orders, key, item).await.refused_with(Reason::InProgress);
    }
    gate.add_permits(1);
    first.await.expect("no panic").executed_once();
    call(&harness, &orders, key, "lamp").await.replayed();
    call(&harness, &orders, key, "chair").await.refused_with(Reason::KeyReused);
}

/// PostgreSQL ends a transaction that is idle for too long.
#[tokio::test]
async fn does_not_hold_the_key_of_a_handler_that_hangs() {
    let gate = Arc::new(Semaphore::new(0));
    let idle = Duration::from_secs(300);
    let (harness, orders) = harness(hold(&gate), |procedure| transactional(procedure).transaction_idle(idle));
    let key = Uuid::new_v4();
    let hanging = running(&harness, &orders, key, "lamp").await;
    harness.advance(idle);
    harness.record(key).await.absent();
    gate.add_permits(1);
    hanging.await.expect("no panic").refused_with(Reason::StoreUnavailable);
    gate.add_permits(1);
    call(&harness, &orders, key, "lamp").await.executed_once();
}

#[tokio::test]
async fn runs_a_call_without_a_key_and_records_nothing() {
    let (harness, mut orders) = harness(create, transactional);
    harness.call_without_key(order("lamp"), |request| orders.create_order(request)).await.executed_once();
    let failed = harness.call_without_key(order("nothing"), |request| orders.create_order(request)).await;
    failed.failed_with(Code::NotFound);
    assert!(harness.store().is_empty());
}

/// A handler whose repository is elsewhere can run.
#[tokio::test]
async fn runs_a_handler_that_writes_elsewhere() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let repository = Arc::clone(&written);
    let handler = move |request: Request<CreateOrderRequest>| {
        let repository = Arc::clone(&repository);
        async move {
            repository.lock().expect("no panic").push(request.into_inner().item);
            Ok("order-1".to_owned())
        }
    };
    let (harness, orders) = harness(handler, transactional);
    let key = Uuid::new_v4();
    call(&harness, &orders, key, "lamp").await.executed_once();
    call(&harness, &orders, key, "lamp").await.replayed();
    assert_eq!(*written.lock().expect("no panic"), ["lamp"]);
}

#[tokio::test]
async fn tells_a_handler_that_asks_for_a_transaction_that_there_is_none() {
    let handler = async |request: Request<CreateOrderRequest>| -> Result<String, Status> {
        let transaction = Transaction::from_request(&request)?;
        transaction.batch_execute("SELECT 1").await?;
        create(request).await
    };
    let (harness, orders) = harness(handler, transactional);
    let key = Uuid::new_v4();
    let failed = call(&harness, &orders, key, "lamp").await;
    assert!(failed.to_string().contains("or with a MemoryStore, has no transactions"), "{failed}");
    failed.failed_with(Code::Internal);
    harness.record(key).await.absent();
}

#[test]
fn is_refused_unless_the_test_accepts_it() {
    let procedure = || Procedure::builder(CREATE).mode(Mode::Transactional);
    let build = |store| IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).procedure(procedure()).build();
    let refused = build(MemoryStore::new()).expect_err("a store without transactions");
    assert!(refused.to_string().contains("accept_transactions"), "it says what a test can do: {refused}");
    build(MemoryStore::new().accept_transactions()).expect("a layer");
}
