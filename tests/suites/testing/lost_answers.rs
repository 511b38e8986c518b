//! Answers that are lost.

use super::prelude::*;
use super::{
    assertions::panic_of,
    harness::{call, create, harness, on, order, transactional},
};

#[tokio::test]
async fn are_those_of_calls_that_are_recorded_and_replayed_to_a_retry() {
    for describe in [transactional, |procedure| procedure] {
        let (harness, orders) = harness(create, describe);
        let key = Uuid::new_v4();
        harness.lose_answers(2);
        let first = call(&harness, &orders, key, "lamp").await.unanswered();
        assert_eq!(first.runs(), 1);
        assert_eq!(first.into_result().expect_err("the connection broke").code(), Code::Unavailable);
        let stored = harness.record(key).await.completed::<CreateOrderResponse>();
        assert_eq!(call(&harness, &orders, key, "lamp").await.unanswered().runs(), 0);
        assert_eq!(call(&harness, &orders, key, "lamp").await.replayed().into_message(), stored);
        assert_eq!(harness.runs(), 1);
    }
}

#[tokio::test]
async fn are_those_of_calls_that_are_committed_on_postgres() {
    let database = Database::new().await;
    let (harness, orders) = on(database.store(), create, transactional);
    let key = Uuid::new_v4();
    harness.lose_answers(1);
    call(&harness, &orders, key, "lamp").await.unanswered();
    call(&harness, &orders, key, "lamp").await.replayed();
}

/// Of errors and of calls without a key, too; and of no more calls than the test says.
#[tokio::test]
async fn are_those_of_the_next_calls_whatever_they_are() {
    let (harness, mut orders) = harness(create, |procedure| procedure);
    harness.lose_answers(2);
    assert_eq!(call(&harness, &orders, Uuid::new_v4(), "nothing").await.unanswered().runs(), 1);
    harness.call_without_key(order("lamp"), |request| orders.create_order(request)).await.unanswered();
    call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once();
}

#[tokio::test]
async fn are_not_those_of_requests_that_do_not_arrive() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let key = Uuid::new_v4();
    harness.lose_requests(2);
    harness.lose_answers(1);
    for runs in [0, 0, 1] {
        call(&harness, &orders, key, "lamp").await.unanswered();
        assert_eq!(harness.runs(), runs);
    }
    call(&harness, &orders, key, "lamp").await.replayed();
}

#[tokio::test]
async fn are_no_errors_of_handlers() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let key = Uuid::new_v4();
    let lost = async || {
        harness.lose_answers(1);
        call(&harness, &orders, key, "lamp").await
    };
    let said = panic_of(async || _ = lost().await.failed_with(Code::Unavailable)).await;
    let instead =
        "but the handler ran once, and no answer came (UNAVAILABLE: the connection broke before an answer came)";
    assert!(said.ends_with(instead), "{said}");
    let said = panic_of(async || _ = lost().await.replayed()).await;
    assert!(said.contains("but the handler did not run, and no answer came"), "{said}");
    let said = panic_of(async || _ = lost().await.executed_once()).await;
    assert!(said.contains("and no answer came"), "{said}");
}

#[tokio::test]
async fn are_not_those_that_came() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let said = panic_of(async || _ = call(&harness, &orders, Uuid::new_v4(), "lamp").await.unanswered()).await;
    assert!(said.starts_with("expected no answer; but the handler ran once, and the call succeeded"), "{said}");
    let said = panic_of(async || _ = call(&harness, &orders, Uuid::new_v4(), "nothing").await.unanswered()).await;
    assert!(said.starts_with("expected no answer; but the handler ran once, and the call failed (NOT_FOUND"), "{said}");
}
