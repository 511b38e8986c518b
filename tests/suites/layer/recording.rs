//! Outcomes that the store does not take at once.

use metrics_util::debugging::DebuggingRecorder;

use crate::prelude::*;

const LEASE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(2 * 3600);

fn policies(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder.policies(Policies { lease: LEASE, retention: RETENTION, ..Policies::default() })
}

fn unrecorded(server: usize, caller: usize) -> Limits {
    Limits { unrecorded: Limit::new(server, caller), ..Limits::default() }
}

#[tokio::test(start_paused = true)]
async fn keep_their_key_until_they_are_recorded() {
    for (operation, name) in [(Operation::Complete, "a"), (Operation::Abandon, "effect and fail")] {
        let (shop, store) = Shop::watched(policies).await;
        store.fail(operation, StoreErrorKind::Refused);
        drop(shop.create(name).await);
        for _ in 0..10 {
            tokio::time::sleep(LEASE).await;
            assert_refused(shop.create(name).await, Code::Aborted, Reason::InProgress);
        }
        store.mend(operation);
        tokio::time::sleep(LEASE).await;
        match operation {
            Operation::Complete => shop.create(name).await.expect("a replay").assert("processing", true),
            _ => drop(assert_refused(shop.create(name).await, Code::FailedPrecondition, Reason::OutcomeUnknown)),
        }
        assert_eq!(shop.handler.started(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn are_given_up_when_the_retention_ends() {
    let recorder = DebuggingRecorder::new();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let (shop, store) = Shop::watched(policies).await;
    store.fail(Operation::Complete, StoreErrorKind::Unreachable);
    shop.create("a").await.expect("the first call");
    let began = Instant::now();
    assert!(shop.layer.shutdown(RETENTION * 2).await.unfinished.is_empty());
    let tried = began.elapsed();
    assert!(tried > RETENTION - LEASE && tried <= RETENTION, "{tried:?}");
    // The pauses grow to ten seconds, and are shortened at random by up to a half.
    let attempts = store.asked(Operation::Complete);
    assert!((700..1500).contains(&attempts), "{attempts} attempts");
    let counted = recorder.snapshotter().snapshot().into_vec();
    assert!(counted.iter().any(|(key, ..)| key.key().name() == "idempotency_outcomes_given_up_total"), "{counted:?}");
}

#[tokio::test(start_paused = true)]
async fn are_given_up_when_another_call_has_taken_over() {
    let (shop, store) = Shop::watched(policies).await;
    for operation in [Operation::Complete, Operation::Extend] {
        store.fail(operation, StoreErrorKind::Unreachable);
    }
    shop.handler.open(1);
    shop.create("hold").await.expect("the first call");
    tokio::time::sleep(LEASE * 2).await;
    let next = shop.beside(|builder| policies(builder).store(store.clone())).await;
    let taken_over = next.begin_create("hold").await;
    assert_eq!(next.handler.started(), 1);
    for operation in [Operation::Complete, Operation::Extend] {
        store.mend(operation);
    }
    assert!(shop.layer.shutdown(LEASE).await.unfinished.is_empty());
    let asked = store.asked(Operation::Complete);
    next.handler.open(1);
    let taken_over = taken_over.await.expect("no panic").expect("the next call");
    assert_eq!(store.asked(Operation::Complete), asked + 1);
    assert_eq!(next.create("hold").await.expect("a replay").message, taken_over.message);
}

#[tokio::test(start_paused = true)]
async fn let_no_more_keys_be_claimed_while_too_many_wait() {
    let (shop, store) = Shop::watched(|builder| policies(builder).limits(unrecorded(2, 10_000))).await;
    let keys = [(); 3].map(|()| shop.with_new_key());
    store.fail(Operation::Complete, StoreErrorKind::Overloaded);
    for shop in &keys[..2] {
        shop.create("a").await.expect("the first call");
    }
    let claims = store.asked(Operation::Claim);
    assert_refused(keys[2].create("a").await, Code::Unavailable, Reason::Overloaded);
    assert_eq!((shop.handler.started(), store.asked(Operation::Claim)), (2, claims));
    // None of them is given up.
    store.mend(Operation::Complete);
    tokio::time::sleep(LEASE).await;
    for shop in &keys[..2] {
        shop.create("a").await.expect("a replay").assert("processing", true);
    }
    keys[2].create("a").await.expect("the first call").assert("processing", false);
}

#[tokio::test(start_paused = true)]
async fn of_one_caller_keep_no_other_from_claiming() {
    let (shop, store) = Shop::watched(|builder| policies(builder).limits(unrecorded(10_000, 1))).await;
    store.fail(Operation::Complete, StoreErrorKind::Overloaded);
    shop.create("a").await.expect("the first call");
    let again = shop.with_new_key();
    let refused = assert_refused(again.create("a").await, Code::ResourceExhausted, Reason::Overloaded);
    let info = refused.get_details_error_info().expect("an ErrorInfo");
    assert_eq!([&info.metadata["limit"], &info.metadata["of"]], ["unrecorded", "caller"]);
    again.by_another_user().create("a").await.expect("another caller's first call");
}

#[tokio::test(start_paused = true)]
async fn of_claims_that_were_not_answered_wait_only_up_to_half_of_the_limit() {
    let (shop, store) = Shop::watched(|builder| policies(builder).limits(unrecorded(4, 10_000))).await;
    store.lose_answer(Operation::Claim);
    store.fail(Operation::Release, StoreErrorKind::Unreachable);
    let keys = [(); 6].map(|()| shop.with_new_key());
    for shop in &keys {
        // They are refused because of the store, not because of their number.
        assert_refused(shop.create("a").await, Code::Unavailable, Reason::StoreUnavailable);
    }
    store.mend(Operation::Claim);
    store.mend(Operation::Release);
    tokio::time::sleep(LEASE / 2).await;
    let mut free = 0;
    for shop in &keys {
        match shop.create("a").await {
            Ok(first) => {
                first.assert("processing", false);
                free += 1;
            }
            Err(status) => assert_rejected(&status, Code::Aborted, Reason::InProgress),
        }
    }
    assert_eq!(free, 2);
    // The others are free when their leases end.
    tokio::time::sleep(LEASE).await;
    for shop in &keys {
        shop.create("a").await.expect("a response");
    }
    assert_eq!(shop.handler.started(), keys.len());
}

#[tokio::test(start_paused = true)]
async fn are_recorded_without_their_responses_beyond_the_limit_of_bytes() {
    let (shop, store) = Shop::watched(|builder| policies(builder).max_unrecorded_bytes(1500)).await;
    let (one, other) = (shop.with_new_key(), shop.with_new_key());
    let name = "a".repeat(1000);
    store.fail(Operation::Complete, StoreErrorKind::Unreachable);
    for shop in [&one, &other] {
        shop.create(&name).await.expect("the first caller gets it").assert("processing", false);
    }
    store.mend(Operation::Complete);
    tokio::time::sleep(LEASE).await;
    one.create(&name).await.expect("a replay").assert("processing", true);
    assert_refused(other.create(&name).await, Code::FailedPrecondition, Reason::NotStored);
    assert_eq!(shop.handler.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn free_the_key_of_a_look_up_that_was_not_answered() {
    let witness = Witness::new(Answer::found("found"));
    let (shop, store) = Shop::watched(|builder| reconcile(builder, &witness)).await;
    shop.die(&store, CREATE, "a").await;
    // Recovery claims the key.
    store.lose_answer(Operation::Claim);
    assert_eq!(shop.layer.recovery().recover().await.expect("the keys can be listed").failed, 1);
    store.mend(Operation::Claim);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shop.layer.recovery().recover().await.expect("it recovers").completed, 1);
    assert_eq!(witness.asked().len(), 1);
}
