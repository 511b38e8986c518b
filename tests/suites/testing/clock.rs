//! The clock of the store, which a test advances.

use std::{sync::Arc, time::Duration};

use quickstart::proto::CreateOrderResponse;
use tokio::sync::Semaphore;
use tonic_idempotency::{policy::LeasePolicy, rejection::Reason, testing::Record};
use tonic_idempotency_tests::until;
use uuid::Uuid;

use crate::harness::{call, create, harness, hold};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// The second replay comes from the layer's cache, which must not outlive the record.
#[tokio::test]
async fn ends_the_retention_of_a_record_when_it_is_advanced_by_it() {
    let (harness, orders) = harness(create, |procedure| procedure.retention(HOUR));
    let key = Uuid::new_v4();
    let first = call(&harness, &orders, key, "lamp").await.executed_once().into_message();
    for _ in 0..2 {
        call(&harness, &orders, key, "lamp").await.replayed();
    }
    harness.advance(HOUR - 10 * SECOND);
    assert_eq!(call(&harness, &orders, key, "lamp").await.replayed().into_message(), first);
    let left = harness.record(key).await.expires_in().expect("a record");
    assert!(left <= 10 * SECOND && left > Duration::ZERO, "{left:?}");

    harness.advance(10 * SECOND);
    harness.record(key).await.absent();
    assert_ne!(call(&harness, &orders, key, "lamp").await.executed_once().into_message(), first);
}

/// As if the process of the first call had stood still: its outcome comes too late.
#[tokio::test]
async fn ends_the_lease_of_a_call_when_it_is_advanced_by_it() {
    let gate = Arc::new(Semaphore::new(0));
    let (harness, orders) = harness(hold(&gate), |procedure| procedure.lease(60 * SECOND));
    let key = Uuid::new_v4();
    let first = tokio::spawn({
        let (harness, orders) = (harness.clone(), orders.clone());
        async move { call(&harness, &orders, key, "lamp").await.executed_once().into_message() }
    });
    until("the handler runs", async || harness.runs() == 1).await;
    harness.advance(59 * SECOND);
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::InProgress);
    assert_eq!(harness.record(key).await, Record::Reserved);

    harness.advance(SECOND);
    assert_eq!(harness.record(key).await, Record::Unknown);
    let second = tokio::spawn({
        let (harness, orders) = (harness.clone(), orders.clone());
        async move { call(&harness, &orders, key, "lamp").await.executed_once().into_message() }
    });
    until("the handler runs again", async || harness.runs() == 2).await;
    gate.add_permits(2);
    let (first, second) = (first.await.expect("no panic"), second.await.expect("no panic"));
    assert_ne!(first, second);
    assert_eq!(harness.record(key).await.completed::<CreateOrderResponse>(), second);
}

#[tokio::test]
async fn ends_a_lease_whose_call_must_not_run_again() {
    let gate = Arc::new(Semaphore::new(0));
    let refuse = LeasePolicy::Refuse;
    let (harness, orders) = harness(hold(&gate), |procedure| procedure.on_lease_ended(refuse));
    let key = Uuid::new_v4();
    let first = tokio::spawn({
        let (harness, orders) = (harness.clone(), orders.clone());
        async move { call(&harness, &orders, key, "lamp").await.runs() }
    });
    until("the handler runs", async || harness.runs() == 1).await;
    harness.advance(61 * SECOND);
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::OutcomeUnknown);
    gate.add_permits(1);
    assert_eq!(first.await.expect("no panic"), 1);
}
