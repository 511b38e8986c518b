//! Limits of the calls that the layer holds: in flight, waiting, and being read.

use tokio::runtime::{Builder, Runtime};

use crate::prelude::*;

/// Longer than any call waits here.
const MAX_WAIT: Duration = Duration::from_secs(10);

const SECOND: Duration = Duration::from_secs(1);

type Spawned = JoinHandle<Result<Seen, Status>>;

fn in_flight(server: usize, caller: usize) -> Limits {
    Limits { in_flight: Limit::new(server, caller), ..Limits::default() }
}

/// A shop that has so many calls in flight at most, of all users and of each.
async fn shop_with(server: usize, caller: usize) -> Shop {
    Shop::with(|builder| builder.store(MemoryStore::new()).limits(in_flight(server, caller))).await
}

/// Makes duplicates wait.
fn wait(builder: IdempotencyLayerBuilder, store: impl Store) -> IdempotencyLayerBuilder {
    builder
        .store(store)
        .adjust_procedures(|procedure| procedure.on_in_progress(InProgressPolicy::Wait).max_wait(MAX_WAIT))
}

fn assert_overloaded(refused: Result<Seen, Status>) {
    assert_eq!(retry_delay(&assert_refused(refused, Code::Unavailable, Reason::Overloaded)), SECOND);
}

fn assert_user_limit(refused: Result<Seen, Status>) {
    assert_eq!(retry_delay(&assert_refused(refused, Code::ResourceExhausted, Reason::Overloaded)), SECOND);
}

/// Calls outlive their streams, so that a client can begin another call as soon as it has reset a stream.
#[tokio::test]
async fn calls_of_a_user_whose_streams_are_reset_never_exceed_the_default_limit() {
    let shop = Shop::new().await;
    for calls in 1..=209 {
        let caller = shop.with_new_key();
        let call = caller.spawn_create("hold");
        until("it runs, or is refused", async || call.is_finished() || shop.handler.started() == calls).await;
        if calls <= 128 {
            call.abort();
            assert!(call.await.expect_err("its stream is reset").is_cancelled());
        } else {
            assert_user_limit(call.await.expect("no panic"));
        }
    }
    assert_eq!(shop.handler.started(), 128);
    shop.by_another_user().create("a").await.expect("another user's call runs");
    assert_eq!(shop.handler.started(), 129);

    // When they have ended, there is room again.
    shop.handler.open(128);
    until("they end", async || shop.handler.finished() == 129).await;
    until("one more runs", async || shop.with_new_key().create("a").await.is_ok()).await;
}

#[tokio::test]
async fn calls_of_all_users_never_exceed_the_limit() {
    let shop = shop_with(3, 128).await;
    let calls: Vec<Spawned> = (0..3).map(|_| shop.by_another_user().spawn_create("hold")).collect();
    until("they run", async || shop.handler.started() == 3).await;
    for _ in 0..5 {
        assert_overloaded(shop.by_another_user().create("a").await);
    }
    // A call without a key is as it would be without the layer.
    shop.with_key(None).create("a").await.expect("it runs");

    shop.handler.open(3);
    for call in calls {
        call.await.expect("no panic").expect("a response").assert("processing", false);
    }
    shop.by_another_user().create("a").await.expect("there is room again");
}

#[tokio::test]
async fn a_retry_or_replay_of_a_user_at_its_limit_is_refused_and_may_be_retried() {
    let shop = shop_with(1024, 1).await;
    shop.create("a").await.expect("the first call");
    let running = shop.with_new_key();
    let call = running.run_create("hold").await;
    assert_user_limit(running.create("hold").await);
    assert_user_limit(shop.create("a").await);
    shop.handler.open(1);
    call.await.expect("no panic").expect("a response").assert("processing", false);
    running.create("hold").await.expect("a replay").assert("processing", true);
    shop.create("a").await.expect("a replay").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_recorded_later_is_not_in_flight() {
    let (shop, store) = Shop::watched(|builder| builder.limits(in_flight(1, 128))).await;
    store.fail(Operation::Complete, StoreErrorKind::Unreachable);
    shop.create("a").await.expect("the first call");
    shop.with_new_key().create("a").await.expect("another call");
    assert_eq!(shop.handler.finished(), 2);
}

/// A runtime on this thread.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn calls_of_a_runtime_that_is_dropped_leave_room() {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).limits(in_flight(1, 128));
    let (layer, handler) = (layer.build().expect("a layer"), Counting::default());
    let wrapped = layer.layer(shop::server(handler.clone()));
    let client = ShopClient::new(InterceptedService::new(wrapped, shop::authenticate));
    let create = |name| {
        let mut client = client.clone();
        async move { client.create_order(shop::request(name, Some(Uuid::new_v4()), Some(Uuid::new_v4()))).await }
    };
    let first = runtime();
    first.spawn(create("hold"));
    first.block_on(until("it runs", async || handler.started() == 1));
    drop(first);
    runtime().block_on(create("a")).expect("the only call");
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_of_a_user_never_exceed_the_limit() {
    let shop = Shop::in_memory(|builder| {
        wait(builder, MemoryStore::new()).limits(Limits { waiting: Limit::new(4096, 2), ..Limits::default() })
    })
    .await;
    let other = shop.by_another_user();
    let _first = [shop.spawn_create("hold"), other.spawn_create("hold")];
    quiet().await;
    let waiters = [shop.spawn_create("hold"), shop.spawn_create("hold")];
    quiet().await;
    assert_user_limit(shop.create("hold").await);
    let others = other.begin_create("hold").await;
    assert!(!others.is_finished(), "another user's call waits");

    // A waiter that disconnects leaves room.
    let [waiter, gone] = waiters;
    gone.abort();
    quiet().await;
    let next = shop.begin_create("hold").await;
    shop.handler.open(2);
    for call in [waiter, next, others] {
        call.await.expect("no panic").expect("a response").assert("processing", true);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_waiting_calls_never_exceed_their_size() {
    let shop = Shop::in_memory(|builder| wait(builder, MemoryStore::new()).max_waiting_bytes(3000)).await;
    let name: &'static str = String::leak(format!("hold and {}", "a".repeat(1000)));
    let first = shop.begin_create(name).await;
    let waiters = [shop.spawn_create(name), shop.by_another_user().spawn_create(name), shop.spawn_create(name)];
    quiet().await;
    let [small, of_another, refused] = waiters;
    // Of another user, with a key of its own: it runs, and its duplicate would wait.
    let running = shop.by_another_user();
    let runs = running.begin_create("hold").await;
    assert!(!small.is_finished() && !of_another.is_finished() && !refused.is_finished(), "two messages fit");
    assert_overloaded(shop.create(name).await);
    // A small one still fits.
    let duplicate = running.begin_create("hold").await;
    assert!(!duplicate.is_finished());

    shop.handler.open(3);
    for call in [first, small, of_another, refused, runs, duplicate] {
        call.await.expect("no panic").expect("a response");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_that_may_not_run_goes_on_waiting_until_it_may_or_its_time_ends() {
    for may in [true, false] {
        let store = Watched::default();
        let elsewhere = Shop::in_memory(|builder| wait(builder, store.clone())).await;
        let shop = elsewhere.beside(|builder| wait(builder, store.clone()).limits(in_flight(1024, 1))).await;
        let first = elsewhere.begin_create("hold").await;
        let waits = shop.begin_create("hold").await;
        let other = shop.with_new_key().begin_create("hold").await;
        let asked = store.asked(Operation::Claim);
        elsewhere.handler.open(1);
        first.await.expect("no panic").expect("the first call");
        tokio::time::sleep(3 * SECOND).await;
        assert_eq!((waits.is_finished(), store.asked(Operation::Claim)), (false, asked));
        if !may {
            assert_user_limit(waits.await.expect("no panic"));
            continue;
        }
        shop.handler.open(1);
        other.await.expect("no panic").expect("a response");
        waits.await.expect("no panic").expect("a replay").assert("processing", true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_arrive_in_time_is_refused_and_holds_nothing() {
    for (limit, expected) in [(None, Duration::from_secs(30)), (Some(SECOND), SECOND)] {
        let store = MemoryStore::new();
        let shop = Shop::in_memory(|builder| {
            let builder = builder.store(store.clone()).limits(in_flight(1, 128));
            limit.into_iter().fold(builder, |builder, limit| builder.request_body_timeout(limit))
        })
        .await;
        let began = Instant::now();
        let (_never_sent, call) = shop.spawn_slow().await;
        quiet().await;
        // It counts as in flight, but has no key.
        assert_overloaded(shop.by_another_user().create("a").await);
        assert_eq!(store.len(), 0);
        assert_refused(call.await.expect("no panic"), Code::DeadlineExceeded, Reason::RequestTimeout);
        let took = began.elapsed();
        assert!(took >= expected && took < expected + SECOND / 10, "{took:?}");
        shop.by_another_user().create("a").await.expect("there is room again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_arrives_in_time_is_not_refused() {
    let shop = Shop::paused(MemoryStore::new()).await;
    let (sender, call) = shop.spawn_slow().await;
    tokio::time::sleep(29 * SECOND).await;
    sender.send(shop::request("a", None, None).into_inner()).await.expect("the call reads it");
    drop(sender);
    call.await.expect("no panic").expect("a response").assert("processing", false);
}
