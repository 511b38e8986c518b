//! The header that says how long a key still protects.

use crate::prelude::*;
use crate::{
    metadata::{self, CASES},
    raw::{self, Answer},
};

pub(crate) const TOUCH: &str = "/shop.v1.Shop/Touch";
const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The seconds in the header, if it is there.
pub(crate) fn expires(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get("idempotency-expires")?;
    Some(value.to_str().expect("text").parse().expect("a number of seconds"))
}

/// Asserts that the header has the rest of an hour.
fn assert_left(answer: &Answer, passed: Duration, case: &str) {
    let (left, expected) = (expires(&answer.headers), (HOUR - passed).as_secs());
    // Rounded down, and less the time that the test has taken.
    assert!(
        left.is_some_and(|left| (expected.saturating_sub(30)..=expected).contains(&left)),
        "{case}: {left:?} of {expected}"
    );
    assert!(!answer.trailers.contains_key("idempotency-expires"), "{case}: once");
}

pub(crate) fn hour(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder.adjust_procedures(|procedure| procedure.retention(HOUR).final_errors([Code::FailedPrecondition]))
}

pub(crate) async fn call(shop: &Shop, path: &str, name: &str) -> Answer {
    let message = shop::request(name, None, None).into_inner().encode_to_vec();
    raw::post(shop, path, &[], raw::frame(0, &message)).await
}

#[tokio::test]
async fn is_on_every_first_answer_that_is_recorded_and_on_its_replays() {
    let shop = metadata::shop(|builder| hour(builder).store(MemoryStore::new())).await;
    for (path, style, name) in CASES {
        let shop = shop.with_new_key();
        for attempt in 0..3 {
            let answer = metadata::call(&shop, path, style, name).await;
            assert_eq!(answer.headers.contains_key("idempotent-replayed"), attempt > 0);
            assert_left(&answer, Duration::ZERO, &format!("{path} {style} {name} {attempt}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn counts_down_by_the_stores_clock_and_in_the_replay_cache() {
    let (shop, store) = Shop::watched(|builder| hour(builder).replay_cache_max_age(HOUR)).await;
    let first = tokio::time::Instant::now();
    assert_left(&call(&shop, TOUCH, "a").await, Duration::ZERO, "the first");
    // From the store, and from memory then on.
    for (passed, claims) in [(600, 2), (1200, 2), (3590, 2)] {
        tokio::time::sleep_until(first + Duration::from_secs(passed)).await;
        let replay = call(&shop, TOUCH, "a").await;
        assert_left(&replay, Duration::from_secs(passed), "a replay");
        assert_eq!(store.asked(Operation::Claim), claims);
    }
}

#[tokio::test]
async fn is_what_is_left_of_a_record_on_postgres() {
    let (database, owner) = Database::with_owner().await;
    for mode in [Mode::Reserved, Mode::Transactional] {
        let store = postgres(database.pool(4));
        let adjust =
            move |procedure: ProcedureBuilder| procedure.mode(mode).effect(EffectPolicy::Anywhere).retention(HOUR);
        let shop = Shop::with(|builder| builder.adjust_procedures(adjust).store(store)).await;
        assert_left(&call(&shop, TOUCH, "a").await, Duration::ZERO, "the first");
        let older = "UPDATE tenant.idempotency_keys SET expires = expires - interval '20 minutes'";
        owner.execute(older, &[]).await.expect("the record is there");
        assert_left(&call(&shop, TOUCH, "a").await, HOUR / 3, "from the store");
        assert_left(&call(&shop, TOUCH, "a").await, HOUR / 3, "from the cache");
        owner.execute("DELETE FROM tenant.idempotency_keys", &[]).await.expect("the record is there");
    }
}

/// A reservation's own expiry is kept at the completion if it is about right.
#[tokio::test(start_paused = true)]
async fn does_not_promise_more_than_the_claim_has_set() {
    let shop = Shop::in_memory(|builder| hour(builder).store(MemoryStore::new())).await;
    for (passed, expected) in [(10 * SECOND, 10 * SECOND), (600 * SECOND, HOUR / 100)] {
        let shop = shop.with_new_key();
        let first = tokio::spawn({
            let shop = shop.with_key(shop.key);
            async move { call(&shop, TOUCH, "hold").await }
        });
        quiet().await;
        tokio::time::sleep(passed).await;
        shop.handler.open(1);
        assert_left(&first.await.expect("no panic"), expected, &format!("{passed:?}"));
    }
}

/// Those that have waited get the answer of the first, and no promise that the first does not get.
#[tokio::test(start_paused = true)]
async fn is_on_the_answers_of_calls_that_have_waited_unless_the_first_is_not_recorded() {
    let wait = |procedure: ProcedureBuilder| procedure.retention(HOUR).on_in_progress(InProgressPolicy::Wait);
    for is_recorded in [true, false] {
        let (shop, store) = Shop::watched(|builder| builder.adjust_procedures(wait)).await;
        if !is_recorded {
            store.fail(Operation::Complete, StoreErrorKind::Unreachable);
        }
        let calls = shop.spawn_all(3, |shop| async move { call(&shop, TOUCH, "hold").await });
        quiet().await;
        shop.handler.open(1);
        for answer in calls.join_all().await {
            match is_recorded {
                true => assert_left(&answer, Duration::ZERO, "a call that waited, or the first"),
                false => assert_eq!((answer.status().code(), expires(&answer.headers)), (Code::Ok, None)),
            }
        }
        assert_eq!(shop.handler.started(), 1);
    }
}

#[tokio::test]
async fn is_on_the_refusal_to_run_a_call_again_whose_response_was_too_large_to_store() {
    let shop = Shop::with(|builder| hour(builder).store(MemoryStore::new()).max_response_bytes(1)).await;
    assert_left(&call(&shop, CREATE, "a").await, Duration::ZERO, "the first");
    let refused = call(&shop, CREATE, "a").await;
    assert_eq!(Reason::of(&refused.status()), Some(Reason::NotStored));
    assert_left(&refused, Duration::ZERO, "the refusal");
}

/// The answers that no record stands behind.
#[tokio::test(start_paused = true)]
async fn is_not_on_an_answer_that_leaves_no_record() {
    let (shop, store) = Shop::watched(hour).await;
    let without = |answer: &Answer, case: &str| assert_eq!(expires(&answer.headers), None, "{case}");
    without(&call(&shop.with_key(None), TOUCH, "a").await, "without a key");
    let new = || shop.with_new_key();
    without(&call(&new(), TOUCH, "fail").await, "a failure that frees the key");
    without(&call(&new(), TOUCH, "effect and fail").await, "an unknown outcome");

    let used = new();
    call(&used, TOUCH, "a").await;
    let reused = call(&used, TOUCH, "b").await;
    assert_eq!(Reason::of(&reused.status()), Some(Reason::KeyReused));
    without(&reused, "the key of another request");

    let running = new();
    let first = tokio::spawn({
        let shop = running.with_key(running.key);
        async move { call(&shop, TOUCH, "hold").await }
    });
    quiet().await;
    assert_eq!(shop.handler.started(), 5);
    let in_progress = call(&running, TOUCH, "hold").await;
    assert_eq!(Reason::of(&in_progress.status()), Some(Reason::InProgress));
    without(&in_progress, "the first call still runs");
    shop.handler.open(1);
    first.await.expect("no panic");

    store.fail(Operation::Complete, StoreErrorKind::Unreachable);
    let waiting = call(&new(), TOUCH, "a").await;
    assert_eq!(waiting.status().code(), Code::Ok);
    without(&waiting, "an outcome that is not recorded yet");
}
