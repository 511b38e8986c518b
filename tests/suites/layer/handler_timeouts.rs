//! Handlers that take too long, in reserved mode. Those in transactions are in the suite of every driver.

use std::time::Instant as StdInstant;

use tonic_idempotency::run::{RunError, Settlement};

use crate::prelude::*;
use crate::run::{CHARGE, ChargeError, billing, layer};

const TIMEOUT: Duration = Duration::from_secs(600);

const LEASE: Duration = Duration::from_secs(60);

fn policies() -> Policies {
    Policies { handler_timeout: TIMEOUT, lease: LEASE, ..Policies::default() }
}

/// Asserts that a handler took too long, and may still take effect. Returns how long the client is to wait.
#[track_caller]
fn assert_timed_out(answer: Result<Seen, Status>) -> Duration {
    let status = assert_refused(answer, Code::DeadlineExceeded, Reason::HandlerTimeout);
    let info = status.get_details_error_info().expect("its reason");
    assert_eq!(info.metadata.get("outcome").map(String::as_str), Some("unknown"));
    assert!(!status.metadata().contains_key("idempotency-outcome"));
    retry_delay(&status)
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_told_and_its_lease_decides() {
    for policy in [LeasePolicy::Rerun, LeasePolicy::Refuse] {
        let policies = Policies { on_lease_ended: policy, ..policies() };
        let (shop, store) = Shop::watched(|builder| builder.policies(policies)).await;
        let began = Instant::now();
        let left = assert_timed_out(shop.create("lose and hold").await);
        assert!(began.elapsed() >= TIMEOUT && began.elapsed() < TIMEOUT + Duration::from_secs(1));
        assert!(left > LEASE / 2 && left <= LEASE, "it was renewed until then, and has {left:?} left");
        quiet().await;
        assert_eq!((shop.handler.started(), shop.handler.finished()), (1, 0));
        // Nothing is sent: no renewal, no outcome, and no release.
        let sent = || {
            [Operation::Extend, Operation::Release, Operation::Abandon, Operation::Complete].map(|it| store.asked(it))
        };
        let [renewed, ended @ ..] = sent();
        assert!(renewed > 10 && ended == [0; 3]);
        tokio::time::sleep(left - Duration::from_secs(1)).await;
        assert_refused(shop.create("lose and hold").await, Code::Aborted, Reason::InProgress);
        assert_eq!(sent(), [renewed, 0, 0, 0]);

        tokio::time::sleep(Duration::from_secs(2)).await;
        if policy == LeasePolicy::Refuse {
            assert_refused(shop.create("lose and hold").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
        } else {
            assert_timed_out(shop.create("lose and hold").await);
        }
        let runs = if policy == LeasePolicy::Refuse { 1 } else { 2 };
        assert_eq!(shop.handler.started(), runs);
    }
}

/// A retry must not run it, and need not wait for the lease to hear that.
#[tokio::test(start_paused = true)]
async fn a_handler_whose_effect_is_committed_leaves_its_outcome_unknown() {
    let (shop, store) = Shop::watched(|builder| builder.policies(policies())).await;
    assert_eq!(assert_timed_out(shop.create("effect and hold").await), Duration::from_secs(1));
    assert_eq!(store.asked(Operation::Abandon), 1);
    assert_refused(shop.create("effect and hold").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
    assert_eq!(shop.handler.started(), 1);
}

/// One user's handlers would keep all places that a user may have.
#[tokio::test(start_paused = true)]
async fn handlers_that_hang_give_their_places_back() {
    let limits = Limits { in_flight: Limit::new(1024, 3), ..Limits::default() };
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).policies(policies()).limits(limits)).await;
    let hung: Vec<_> = (0..3).map(|_| shop.with_new_key().spawn_create("hold")).collect();
    quiet().await;
    assert_refused(shop.with_new_key().create("a").await, Code::ResourceExhausted, Reason::Overloaded);
    for call in hung {
        assert_timed_out(call.await.expect("no panic"));
    }
    shop.with_new_key().create("a").await.expect("there is a place");
}

/// They take the key over when the lease has ended, as if the first had died.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_handler_that_hangs_wait_for_its_lease() {
    let policies = Policies { on_in_progress: InProgressPolicy::Wait, max_wait: 2 * TIMEOUT, ..policies() };
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).policies(policies)).await;
    let first = shop.begin_create("hold").await;
    let follower = shop.begin_create("hold").await;
    let left = assert_timed_out(first.await.expect("no panic"));
    let began = Instant::now();
    until("the follower runs", async || shop.handler.started() == 2).await;
    assert!(began.elapsed() >= left, "{:?} of {left:?}", began.elapsed());
    shop.handler.open(1);
    follower.await.expect("no panic").expect("its response").assert("processing", false);
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_handler_is_ended_as_well() {
    let policies = Policies { on_store_unavailable: StorePolicy::Proceed, ..policies() };
    for lost in [false, true] {
        let (shop, store) = Shop::watched(|builder| builder.policies(policies)).await;
        if lost {
            store.lose_answer(Operation::Claim);
        } else {
            store.fail(Operation::Claim, StoreErrorKind::Unreachable);
        }
        let left = assert_timed_out(shop.create("lose and hold").await);
        let ended = [Operation::Release, Operation::Abandon, Operation::Complete].map(|it| store.asked(it));
        assert_eq!(ended, [0; 3], "its claim may stand, and ends by itself");
        assert!(if lost { left > LEASE / 2 } else { left == Duration::from_secs(1) }, "{left:?}");
        quiet().await;
        assert_eq!(shop.handler.started(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_last_moment_wins() {
    let (shop, _) = Shop::watched(|builder| builder.policies(policies())).await;
    let call = shop.begin_create("hold").await;
    let handler = shop.handler.clone();
    // `begin_create` has taken a millisecond; both wake in the same tick.
    tokio::time::sleep(TIMEOUT - Duration::from_millis(2)).await;
    handler.open(1);
    call.await.expect("no panic").expect("its response").assert("processing", false);
}

/// Its thread cannot be taken from it: the answer goes out, and the gauge shows it (suite `telemetry`).
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_is_answered_for() {
    let timeout = Duration::from_millis(300);
    let policies = Policies { handler_timeout: timeout, ..Policies::default() };
    let store = MemoryStore::new();
    let shop = Shop::with(|builder| builder.store(store).policies(policies)).await;
    let busy = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let began = StdInstant::now();
    assert_timed_out(shop.create("block").await);
    assert!(began.elapsed() >= timeout);
    assert_eq!((shop.handler.started(), shop.handler.finished()), (1, 0));
    shop.with_new_key().create("a").await.expect("another call of the same user");
    busy.abort();
    shop.handler.open(1);
    until("it ends, too late", async || shop.handler.finished() == 2).await;
    assert_refused(shop.create("block").await, Code::Aborted, Reason::InProgress);
}

/// Jobs run for hours. A limit is the operation's own, and its queue delivers again when the lease has ended.
#[tokio::test(start_paused = true)]
async fn an_operation_has_ten_years_unless_it_says_otherwise() {
    let days = Duration::from_secs(30 * 24 * 3600);
    for (timeout, expected) in [(None, true), (Some(TIMEOUT), false)] {
        let change = |procedure: ProcedureBuilder| match timeout {
            None => procedure,
            Some(timeout) => procedure.handler_timeout(timeout),
        };
        let operation = layer(MemoryStore::new(), change).operation::<tonic_idempotency::run::Bytes>(CHARGE);
        let operation = operation.expect("it is declared");
        let charged = operation
            .run(&billing(), "order-17", b"request".as_slice(), move |call: tonic_idempotency::run::Call| async move {
                assert_eq!(call.execution().time_left().expect("it is bounded") > days, timeout.is_none());
                tokio::time::sleep(days).await;
                Ok::<_, ChargeError>(b"charged".to_vec())
            })
            .await;
        assert_eq!(charged.is_ok(), expected);
        let settlement = Settlement::of(&charged);
        if let Err(RunError::Refused { reason, .. }) = charged {
            assert_eq!(reason, Reason::HandlerTimeout);
            let Settlement::Redeliver { after } = settlement else { panic!("{settlement:?}") };
            assert!(after > LEASE / 2 && after <= LEASE, "{after:?}");
        }
    }
}
