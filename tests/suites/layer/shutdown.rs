//! Shutting a layer down.

use tonic_idempotency::layer::{Shutdown, Stage, UnfinishedCall};
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use crate::prelude::*;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(3600);

const BOUND: Duration = Duration::from_secs(5);

/// The next process on the same store, called by the same user with the same key.
async fn next_process(shop: &Shop, store: impl Store) -> Shop {
    shop.beside(|builder| builder.store(store)).await
}

fn spawn_shutdown(layer: &IdempotencyLayer, bound: Duration) -> JoinHandle<Shutdown> {
    let layer = layer.clone();
    tokio::spawn(async move { layer.shutdown(bound).await })
}

#[tokio::test(start_paused = true)]
async fn refuses_new_calls_with_a_key() {
    let store = MemoryStore::new();
    let shop = Shop::paused(store.clone()).await;
    shop.create("a").await.expect("the first call");
    assert!(shop.layer.shutdown(LONG).await.unfinished.is_empty());
    // Replays, too: the retry reaches another server.
    for shop in [shop.with_key(shop.key), shop.with_new_key()] {
        let status = assert_refused(shop.create("a").await, Code::Unavailable, Reason::ShuttingDown);
        assert_eq!(retry_delay(&status), Duration::from_secs(1));
    }
    assert_eq!((shop.handler.started(), store.len()), (1, 1));
    // It does not wait for the message.
    let (_never_sent, call) = shop.spawn_slow().await;
    assert_refused(call.await.expect("no panic"), Code::Unavailable, Reason::ShuttingDown);
    next_process(&shop, store).await.create("a").await.expect("a replay").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn does_not_refuse_calls_without_a_key_or_of_procedures_that_are_not_opted_in() {
    let shop = Shop::paused(MemoryStore::new()).await;
    assert!(shop.layer.shutdown(LONG).await.unfinished.is_empty());
    shop.with_key(None).create("a").await.expect("a call without a key");
    let request = shop::request("a", shop.user, shop.key);
    shop.client.clone().get_order(request).await.map(Seen::of).expect("a procedure that is not opted in");
    assert_eq!(shop.handler.finished(), 2);
}

#[tokio::test(start_paused = true)]
async fn refuses_nothing_without_a_store() {
    let shop = Shop::in_memory(|builder| builder).await;
    assert!(shop.layer.shutdown(LONG).await.unfinished.is_empty());
    shop.create("a").await.expect("a call");
}

#[tokio::test(start_paused = true)]
async fn waits_for_running_calls_and_for_their_records() {
    let store = MemoryStore::new();
    let shop = Shop::paused(store.clone()).await;
    let calls = [shop.spawn_create("hold"), shop.with_new_key().spawn_create("hold")];
    quiet().await;
    let shutdown = spawn_shutdown(&shop.layer, LONG);
    for opened in 0..2 {
        tokio::time::sleep(BOUND).await;
        assert!(!shutdown.is_finished(), "it waits after {opened} of two calls have ended");
        shop.handler.open(1);
    }
    assert!(shutdown.await.expect("no panic").unfinished.is_empty());
    for call in calls {
        call.await.expect("no panic").expect("it ran to its end").assert("processing", false);
    }
    next_process(&shop, store).await.create("hold").await.expect("a replay").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_call_whose_client_disconnected() {
    let shop = Shop::paused(MemoryStore::new()).await;
    let call = shop.begin_create("hold").await;
    call.abort();
    let shutdown = spawn_shutdown(&shop.layer, LONG);
    quiet().await;
    assert!(!shutdown.is_finished());
    shop.handler.open(1);
    assert!(shutdown.await.expect("no panic").unfinished.is_empty());
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test(start_paused = true)]
async fn does_not_wait_for_calls_without_a_key() {
    let shop = Shop::paused(MemoryStore::new()).await;
    let _call = shop.with_key(None).spawn_create("hold");
    quiet().await;
    assert_eq!(shop.handler.started(), 1);
    assert!(spawn_shutdown(&shop.layer, LONG).await.expect("no panic").unfinished.is_empty());
}

/// Shuts a shop down, and asserts that its call is left, at this stage, since this time.
async fn assert_unfinished(shop: &Shop, stage: Stage, since: Duration) {
    let left = shop.layer.shutdown(BOUND).await.unfinished;
    let [UnfinishedCall { procedure, owner, key, mode, stage: found, since: found_since, .. }] = &left[..] else {
        panic!("{left:?}")
    };
    assert_eq!((procedure.as_str(), *mode, *found), (CREATE, Mode::Reserved, stage), "{left:?}");
    assert_eq!(*owner.as_uuid(), shop.user.expect("a user"));
    assert_eq!(*key.as_uuid(), shop.key.expect("a key"));
    assert!(*found_since >= since && *found_since < since + Duration::from_millis(50), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn reports_unfinished_calls_when_the_time_is_up() {
    let store = MemoryStore::new();
    let shop = Shop::paused(store.clone()).await;
    let ends = shop.with_new_key();
    let (call, ends) = (shop.spawn_create("hold and a"), ends.spawn_create("a"));
    let before = Duration::from_secs(2);
    tokio::time::sleep(before).await;
    let began = tokio::time::Instant::now();
    assert_unfinished(&shop, Stage::Handler, before + BOUND).await;
    assert_eq!(began.elapsed().as_secs(), BOUND.as_secs());
    ends.await.expect("no panic").expect("it had ended");

    // A second shutdown waits again.
    assert_unfinished(&shop, Stage::Handler, before + BOUND * 2).await;

    // The call goes on while the process lives, and is recorded.
    shop.handler.open(1);
    call.await.expect("no panic").expect("it ran to its end").assert("processing", false);
    assert!(shop.layer.shutdown(BOUND).await.unfinished.is_empty());
    next_process(&shop, store).await.create("hold and a").await.expect("a replay").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn reports_an_unfinished_unprotected_call() {
    let (shop, store) = Shop::watched(|builder| builder.policies(proceeding())).await;
    store.fail(Operation::Claim, StoreErrorKind::Unreachable);
    let call = shop.begin_create("hold").await;
    assert_eq!(shop.handler.started(), 1);
    assert_unfinished(&shop, Stage::Handler, BOUND).await;
    shop.handler.open(1);
    call.await.expect("no panic").expect("it ran to its end");
    assert!(shop.layer.shutdown(BOUND).await.unfinished.is_empty());
}

#[tokio::test(start_paused = true)]
async fn reports_an_unfinished_call_that_does_not_hold_its_key_yet() {
    let store = MemoryStore::new();
    let witness = Witness::new(Answer::Never);
    let shop = Shop::in_memory(|builder| reconcile(builder, &witness).store(store.clone())).await;
    shop.die(&store, CREATE, "a").await;
    let _call = shop.begin_create("a").await;
    assert_unfinished(&shop, Stage::Claiming, BOUND).await;
}

#[tokio::test(start_paused = true)]
async fn reports_the_stage_recording_while_the_store_is_unreachable_or_hangs() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let other = shop.with_new_key();
    store.fail(Operation::Complete, StoreErrorKind::Unreachable);
    shop.create("a").await.expect("it succeeded");
    assert_unfinished(&shop, Stage::Recording, BOUND).await;

    store.mend(Operation::Complete);
    assert!(shop.layer.shutdown(LONG).await.unfinished.is_empty());
    next_process(&shop, store.clone()).await.create("a").await.expect("a replay").assert("processing", true);

    let other = Shop { key: other.key, user: other.user, ..Shop::paused(store.clone()).await };
    store.hang(Operation::Complete);
    let _call = other.begin_create("a").await;
    assert_unfinished(&other, Stage::Recording, BOUND).await;
}

#[tokio::test(start_paused = true)]
async fn stays_in_effect_when_its_future_is_dropped() {
    let store = MemoryStore::new();
    let shop = Shop::paused(store.clone()).await;
    let call = shop.begin_create("hold").await;
    tokio::time::timeout(BOUND, shop.layer.shutdown(LONG)).await.expect_err("it waits for the call");

    assert_refused(shop.with_new_key().create("a").await, Code::Unavailable, Reason::ShuttingDown);
    let again = spawn_shutdown(&shop.layer, LONG);
    let at_once = spawn_shutdown(&shop.layer, LONG);
    quiet().await;
    assert!(!again.is_finished() && !at_once.is_finished());
    shop.handler.open(1);
    for shutdown in [again, at_once] {
        assert!(shutdown.await.expect("no panic").unfinished.is_empty());
    }
    call.await.expect("no panic").expect("it ran to its end").assert("processing", false);
    next_process(&shop, store).await.create("hold").await.expect("a replay").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn says_what_is_left_of_calls_that_it_cuts_off() {
    for (mode, left) in
        [(Mode::Reserved, "their keys stay reserved"), (Mode::Transactional, "their transactions leave nothing")]
    {
        let (lines, _collecting) = Lines::collect(LevelFilter::WARN);
        let in_mode = move |procedure: ProcedureBuilder| procedure.mode(mode).effect(EffectPolicy::Anywhere);
        let store = MemoryStore::new().accept_transactions();
        let shop = Shop::in_memory(|builder| builder.store(store).adjust_procedures(in_mode)).await;
        let _call = shop.begin_create("hold").await;
        assert_eq!(shop.layer.shutdown(BOUND).await.unfinished.len(), 1);
        let written = lines.take();
        assert!(written.matches("the shutdown ended").count() == 1 && written.contains(left), "{mode:?}: {written}");
    }
}
