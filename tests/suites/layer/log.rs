//! The log in a bad hour: a line at once, and then one a minute for each procedure and cause, however many calls are refused or not recorded.

use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use crate::prelude::*;

const CALLS: usize = 1_000;

/// Calls until this many were refused for this reason. The log has one line, or two if a minute has passed meanwhile; or none.
async fn assert_refusals_are_few_lines(reason: Reason, shop: &Shop, call: impl AsyncFn(&Shop) -> Result<Seen, Status>) {
    let (lines, _collecting) = Lines::collect(LevelFilter::INFO);
    for _ in 0..CALLS {
        let status = call(shop).await.expect_err("refused");
        assert_eq!(Reason::of(&status), Some(reason), "{status:?}");
    }
    let written = lines.take();
    let least = usize::from(has_line(reason));
    assert!((least..=2).contains(&written.lines().count()), "{reason:?}: {written}");
}

/// Whether the log tells of it: what the server's operators can mend. Anything else is the client's.
fn has_line(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::CallerInvalid
            | Reason::Conflict
            | Reason::NoScope
            | Reason::NoUser
            | Reason::OutcomeUnknown
            | Reason::Overloaded
            | Reason::StoreFailed
            | Reason::StoreUnavailable
            | Reason::TooManyRecords
    )
}

#[tokio::test]
async fn has_two_lines_at_most_for_a_thousand_calls_that_the_store_refuses() {
    for (kind, reason) in [
        (StoreErrorKind::Conflict, Reason::Conflict),
        (StoreErrorKind::Refused, Reason::StoreFailed),
        (StoreErrorKind::TransactionLimit, Reason::Overloaded),
        (StoreErrorKind::Unreachable, Reason::StoreUnavailable),
        (StoreErrorKind::UserFull, Reason::TooManyRecords),
    ] {
        let (shop, store) = Shop::watched(|builder| builder).await;
        store.fail(Operation::Claim, kind);
        assert_refusals_are_few_lines(reason, &shop, async |shop| shop.create("a").await).await;
    }
}

#[tokio::test]
async fn has_two_lines_at_most_for_a_thousand_calls_that_their_key_or_caller_refuses() {
    let create = async |shop: &Shop| shop.create("a").await;
    let pay = async |shop: &Shop| shop.pay("a").await;
    let memory = async || Shop::in_memory(|builder| builder.store(MemoryStore::new())).await;

    assert_refusals_are_few_lines(Reason::KeyRequired, &memory().await.with_key(None), pay).await;
    assert_refusals_are_few_lines(Reason::NoUser, &Shop { user: None, ..memory().await }, pay).await;

    let shop = memory().await;
    shop.create("a").await.expect("the first call");
    assert_refusals_are_few_lines(Reason::KeyReused, &shop, async |shop| shop.create("b").await).await;

    let shop = memory().await;
    let running = shop.run_create("hold").await;
    assert_refusals_are_few_lines(Reason::InProgress, &shop, async |shop| shop.create("hold").await).await;
    shop.handler.open(1);
    running.await.expect("no panic").expect("the first call");

    let store = MemoryStore::new();
    let shop = Shop::in_memory(|builder| builder.store(store.clone())).await;
    shop.die(&store, "/shop.v1.Shop/Pay", "a").await;
    assert_refusals_are_few_lines(Reason::OutcomeUnknown, &shop, pay).await;

    let long = "a long name, longer than forty bytes";
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).max_response_bytes(40)).await;
    shop.create(long).await.expect("the first call");
    assert_refusals_are_few_lines(Reason::NotStored, &shop, async |shop| shop.create(long).await).await;

    let in_flight = Limits { in_flight: Limit::new(1024, 1), ..Limits::default() };
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).limits(in_flight)).await;
    let running = shop.run_create("hold").await;
    assert_refusals_are_few_lines(Reason::Overloaded, &shop.with_new_key(), create).await;
    shop.handler.open(1);
    running.await.expect("no panic").expect("the first call");

    let nobody = |_: &HeaderMap, _: &http::Extensions| Err::<Option<Caller>, _>("nobody".into());
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).caller_resolver(nobody)).await;
    assert_refusals_are_few_lines(Reason::CallerInvalid, &shop, create).await;

    let shop = memory().await;
    drop(shop.layer.shutdown(Duration::ZERO).await);
    assert_refusals_are_few_lines(Reason::ShuttingDown, &shop, create).await;
}

/// Runs that are not protected have a line each: they may cost an effect.
#[tokio::test]
async fn has_a_line_for_each_call_that_runs_unprotected() {
    let (shop, store) = Shop::watched(|builder| builder.policies(proceeding())).await;
    store.fail(Operation::Claim, StoreErrorKind::Unreachable);
    let (lines, _collecting) = Lines::collect(LevelFilter::INFO);
    for _ in 0..20 {
        shop.create("a").await.expect("it runs");
    }
    assert_eq!(lines.count("runs unprotected"), 20);
}

#[tokio::test]
async fn has_two_lines_at_most_for_a_thousand_outcomes_that_are_not_recorded_yet() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    store.fail(Operation::Complete, StoreErrorKind::Unreachable);
    let (lines, _collecting) = Lines::collect(LevelFilter::INFO);
    for _ in 0..CALLS {
        shop.with_new_key().create("a").await.expect("the response");
    }
    let written = lines.take();
    assert!((1..=2).contains(&written.lines().count()), "{written}");
}
