//! The clock of the store, which a test advances.

use std::time::{SystemTime, UNIX_EPOCH};

use tonic_idempotency::policy::{ExpiredKeyPolicy, LeasePolicy};
use uuid::Timestamp;

use super::harness::{call, create, harness, hold, running};
use super::prelude::*;

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
    let first = running(&harness, &orders, key, "lamp").await;
    harness.advance(59 * SECOND);
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::InProgress);
    assert_eq!(harness.record(key).await, Record::Reserved);

    harness.advance(SECOND);
    assert_eq!(harness.record(key).await, Record::Unknown);
    let second = running(&harness, &orders, key, "lamp").await;
    gate.add_permits(2);
    let (first, second) = (
        first.await.expect("no panic").executed_once().into_message(),
        second.await.expect("no panic").executed_once().into_message(),
    );
    assert_ne!(first, second);
    assert_eq!(harness.record(key).await.completed::<CreateOrderResponse>(), second);
}

#[tokio::test]
async fn ends_a_lease_whose_call_must_not_run_again() {
    let gate = Arc::new(Semaphore::new(0));
    let refuse = LeasePolicy::Refuse;
    let (harness, orders) = harness(hold(&gate), |procedure| procedure.on_lease_ended(refuse));
    let key = Uuid::new_v4();
    let first = running(&harness, &orders, key, "lamp").await;
    harness.advance(61 * SECOND);
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::OutcomeUnknown);
    gate.add_permits(1);
    assert_eq!(first.await.expect("no panic").runs(), 1);
}

/// Minute by minute: the record is there until the key is too old to run.
#[tokio::test]
async fn shows_that_a_key_that_has_expired_never_runs_again() {
    for (expired_keys, runs) in [(ExpiredKeyPolicy::Refuse, 1), (ExpiredKeyPolicy::Run, 2)] {
        // The clock of the client is behind, right, or ahead.
        for skew in [-4, 0, 4] {
            let (harness, orders) = harness(create, |procedure| procedure.retention(HOUR).expired_keys(expired_keys));
            let made = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
            let key = Uuid::new_v7(Timestamp::from_unix_time(made.saturating_add_signed(skew * 60), 0, 0, 0));
            for minute in 0..100 {
                let called = call(&harness, &orders, key, "lamp").await;
                drop(match minute {
                    0 => called.executed_once(),
                    60 if runs == 2 => called.executed_once(),
                    // The record lives for 75 minutes.
                    75.. if runs == 1 => called.refused_with(Reason::KeyExpired),
                    _ => called.replayed(),
                });
                harness.advance(60 * SECOND);
            }
            assert_eq!(harness.runs(), runs, "{expired_keys:?} {skew}");
        }
    }
}

/// The retention counts from the completion, and the time in the key from when it was made.
#[tokio::test]
async fn shows_that_a_record_is_replayed_whatever_the_age_of_its_key() {
    let refuse = ExpiredKeyPolicy::Refuse;
    let (harness, orders) = harness(create, |procedure| procedure.retention(HOUR).expired_keys(refuse));
    let key = Uuid::now_v7();
    harness.advance(HOUR);
    call(&harness, &orders, key, "lamp").await.executed_once();
    harness.advance(HOUR);
    call(&harness, &orders, key, "lamp").await.replayed();
    call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once();
    harness.advance(HOUR);
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::KeyExpired);
    assert_eq!(harness.runs(), 2);
}
