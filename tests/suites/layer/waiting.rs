//! Duplicates that wait for the call that holds their key.

use futures_util::future::join_all;
use tokio::time::timeout;
use tonic_idempotency::layer::{CallerFromExtensions, CallerResolver};

use crate::prelude::*;

const MAX_WAIT: Duration = Duration::from_secs(10);

/// The tolerance of "at once": [`quiet`] takes a millisecond.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Makes duplicates wait, whatever the procedure's own policy; many of one user, too.
fn wait(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder
        .adjust_procedures(|procedure| procedure.on_in_progress(InProgressPolicy::Wait).max_wait(MAX_WAIT))
        .limits(Limits { in_flight: Limit::new(1024, 1000), waiting: Limit::new(4096, 1000), ..Limits::default() })
}

async fn shop_on(store: impl Store) -> Shop {
    Shop::in_memory(|builder| wait(builder).store(store)).await
}

fn spawn(shop: &Shop, calls: usize, name: &'static str) -> JoinSet<Result<Seen, Status>> {
    shop.spawn_all(calls, move |shop| async move { shop.create(name).await })
}

/// The responses of all calls; the one that is not a replay comes first.
async fn answers(calls: JoinSet<Result<Seen, Status>>) -> Vec<Seen> {
    let mut seen: Vec<_> = calls.join_all().await.into_iter().map(|seen| seen.expect("a response")).collect();
    seen.sort_by_key(|seen| seen.replayed.is_some());
    seen
}

/// Asserts that one call ran and that each other call got its response as a replay.
fn assert_one_ran(seen: &[Seen]) {
    let (first, replays) = seen.split_first().expect("calls");
    first.assert("processing", false);
    for replay in replays {
        replay.assert("processing", true);
        assert_eq!(replay.message, first.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_duplicates_get_the_response_of_the_first_and_do_not_call_the_store() {
    let (shop, store) = Shop::watched(wait).await;
    let calls = spawn(&shop, 1000, "hold");
    quiet().await;
    assert_eq!((calls.len(), shop.handler.started(), store.asked(Operation::Claim)), (1000, 1, 1));

    tokio::time::sleep(MAX_WAIT / 2).await;
    let opened = Instant::now();
    shop.handler.open(1);
    let seen = answers(calls).await;
    assert!(opened.elapsed() < AT_ONCE, "{:?}", opened.elapsed());
    assert_eq!(seen.len(), 1000);
    assert_one_ran(&seen);
    assert_eq!((shop.handler.started(), shop.handler.finished()), (1, 1));
    assert_eq!((store.asked(Operation::Claim), store.asked(Operation::Complete)), (1, 1));
}

/// A counter of the calls that arrive at the layer, and the user resolver that increments it.
pub(crate) fn arrivals() -> (Arc<AtomicUsize>, impl CallerResolver) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&arrived);
    let caller = move |headers: &http::HeaderMap, extensions: &http::Extensions| {
        counter.fetch_add(1, Ordering::SeqCst);
        CallerFromExtensions.caller(headers, extensions)
    };
    (arrived, caller)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_duplicates_hold_no_connection_while_they_wait() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let owner = database.owner().await;
    let store = postgres(pool.clone());
    let (arrived, caller) = arrivals();
    let shop = Shop::with(|builder| wait(builder).store(store).caller_resolver(caller)).await;
    // A connection takes several round trips to open, and a slow claim is sent over a second one.
    let opened = join_all((0..4).map(|_| pool.get())).await;
    drop(opened);
    let before = proxy.round_trips();
    let calls = spawn(&shop, 1000, "hold");
    until("all calls have arrived", async || arrived.load(Ordering::SeqCst) == 1000).await;
    until("one handler runs", async || shop.handler.started() == 1).await;
    // The server reads in order: once this call is answered, it has read all earlier ones.
    shop.client.clone().get_order(shop::request("a", shop.user, None)).await.expect("a call");

    let round_trips = proxy.round_trips() - before;
    assert!(round_trips < 20, "the waiters took {round_trips} round trips");
    // A slow claim is sent twice, and the other connection returns to the pool when it has its answer.
    let are_back = async || {
        let status = pool.status();
        (status.waiting, status.available) == (0, status.size)
    };
    until("all connections are free", are_back).await;
    let backends =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let backends: i64 = owner.query_one(backends, &[]).await.expect("the backends").get(0);
    assert!((1..=4).contains(&backends), "{backends} connections");

    shop.handler.open(1);
    let seen = answers(calls).await;
    assert_eq!(seen.len(), 1000);
    assert_one_ran(&seen);
    assert_eq!(shop.handler.started(), 2, "one of the duplicates, and the call without a key");
    let more = proxy.round_trips() - before - round_trips;
    assert!(more < 20, "the woken waiters took {more} round trips");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_waits_no_longer_than_its_deadline_or_max_wait() {
    let (shop, store) = Shop::watched(wait).await;
    let other = shop.beside(|builder| wait(builder).store(store.clone())).await;
    let first = shop.begin_create("hold").await;
    // Without tonic's server in front of the layer, which would also enforce the deadline. A waiter for another process does not start a
    // pause that would end too late.
    for (waits, least) in [(&shop, 1.0), (&other, 0.8)] {
        let wrapped = waits.layer.layer(shop::server(waits.handler.clone()));
        let client = ShopClient::new(InterceptedService::new(wrapped, shop::authenticate));
        let short = Duration::from_millis(1500);
        for (deadline, longest) in [(Some(short), short), (Some(MAX_WAIT * 2), MAX_WAIT), (None, MAX_WAIT)] {
            let mut request = shop::request("hold", shop.user, shop.key);
            deadline.into_iter().for_each(|deadline| request.set_timeout(deadline));
            let began = Instant::now();
            let ended = timeout(MAX_WAIT * 3, client.clone().create_order(request)).await.expect("it gives up");
            let status = assert_refused(ended, Code::Aborted, Reason::InProgress);
            assert_eq!(retry_delay(&status), Duration::from_secs(1));
            let waited = began.elapsed();
            assert!(waited >= longest.mul_f64(least) && waited < longest + AT_ONCE, "{waited:?} of {longest:?}");
        }
    }
    // A claim never takes what a late attempt of an earlier one has reserved for its own.
    assert_eq!(store.tokens(), store.asked(Operation::Claim));
    // Giving up does not affect the first call.
    shop.handler.open(1);
    first.await.expect("no panic").expect("the first call").assert("processing", false);
    shop.create("hold").await.expect("a replay").assert("processing", true);
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_refused_at_once_if_max_waiting_calls_wait_already() {
    let store = MemoryStore::new();
    let shop = Shop::in_memory(|builder| {
        wait(builder).limits(Limits { waiting: Limit::new(2, 256), ..Limits::default() }).store(store.clone())
    })
    .await;
    let mut calls = spawn(&shop, 3, "hold");
    quiet().await;
    for _ in 0..2 {
        let began = Instant::now();
        let status = assert_refused(shop.create("hold").await, Code::Unavailable, Reason::Overloaded);
        assert_eq!(retry_delay(&status), Duration::from_secs(1));
        assert!(began.elapsed() < AT_ONCE);
    }
    // The limit also covers waiting for another process, and other keys.
    let elsewhere = shop.with_new_key();
    let other = Shop { key: elsewhere.key, user: shop.user, ..shop_on(store).await };
    let _first = other.begin_create("hold").await;
    let began = Instant::now();
    assert_refused(elsewhere.create("hold").await, Code::Unavailable, Reason::Overloaded);
    assert!(began.elapsed() < AT_ONCE);

    // Waiters that gave up leave room for others.
    assert_refused(calls.join_next().await.expect("a call").expect("no panic"), Code::Aborted, Reason::InProgress);
    calls.join_next().await.expect("a call").expect("no panic").expect_err("it gave up");
    let next = shop.begin_create("hold").await;
    shop.handler.open(1);
    next.await.expect("no panic").expect("a response").assert("processing", true);
    calls.join_next().await.expect("a call").expect("no panic").expect("the first").assert("processing", false);
}

#[tokio::test(start_paused = true)]
async fn the_next_waiter_runs_the_handler_when_the_first_fails_or_panics() {
    for (name, code) in [("hold and fail at first", Code::NotFound), ("hold and panic", Code::Internal)] {
        let (shop, store) = Shop::watched(wait).await;
        let mut calls = spawn(&shop, 4, name);
        quiet().await;
        assert_eq!(shop.handler.started(), 1);
        shop.handler.open(1);
        let failed = calls.join_next().await.expect("a call").expect("no panic").expect_err("it failed");
        assert_eq!((failed.code(), Reason::of(&failed)), (code, None));

        // One of the three runs the handler again, and the other two wait for it.
        quiet().await;
        assert_eq!((calls.len(), shop.handler.started(), store.asked(Operation::Claim)), (3, 2, 2), "{name}");
        if name.ends_with("at first") {
            shop.handler.open(1);
            assert_one_ran(&answers(calls).await);
            assert_eq!((shop.handler.started(), shop.handler.finished()), (2, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_waiter_runs_the_handler_when_the_first_failed_after_its_effect() {
    let shop = shop_on(MemoryStore::new()).await;
    let calls = spawn(&shop, 4, "effect and hold and fail");
    quiet().await;
    shop.handler.open(4);
    let (own, others): (Vec<_>, Vec<_>) = (calls.join_all().await.into_iter())
        .map(|seen| seen.expect_err("it failed"))
        .partition(|status| status.code() == Code::NotFound);
    assert_eq!((own.len(), others.len(), shop.handler.started()), (1, 3, 1));
    others.iter().for_each(|status| assert_rejected(status, Code::FailedPrecondition, Reason::OutcomeUnknown));
}

#[tokio::test(start_paused = true)]
async fn waiters_get_the_redacted_response_or_not_stored_like_a_retry() {
    let shop = shop_on(MemoryStore::new()).await;
    let calls = shop.spawn_all(2, |shop| async move { shop.pay("hold").await });
    quiet().await;
    shop.handler.open(1);
    let seen = answers(calls).await;
    assert!(seen[0].message.contains("hidden"), "{seen:?}");
    seen[1].assert("processing", true);
    assert_eq!(seen[1].message, seen[0].message.replace("hidden", ""), "only the first caller gets redacted fields");

    let shop = Shop::in_memory(|builder| wait(builder).store(MemoryStore::new()).max_response_bytes(1)).await;
    let calls = spawn(&shop, 2, "hold");
    quiet().await;
    shop.handler.open(1);
    let refused: Vec<_> = calls.join_all().await.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1);
    assert_rejected(&refused[0], Code::FailedPrecondition, Reason::NotStored);
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_call_of_another_process_and_polls_once_for_all_waiters() {
    let (shop, store) = Shop::watched(wait).await;
    let other = shop.beside(|builder| wait(builder).store(store.clone())).await;
    let first = shop.begin_create("hold").await;
    let calls = spawn(&other, 100, "hold");
    tokio::time::sleep(Duration::from_secs(3)).await;
    quiet().await;
    // At short intervals at first, and then at longer ones.
    let claims = store.asked(Operation::Claim);
    assert!((15..40).contains(&claims), "{claims} claims");

    shop.handler.open(1);
    let first = first.await.expect("no panic").expect("the first call");
    let ended = Instant::now();
    let seen = answers(calls).await;
    assert!(ended.elapsed() <= Duration::from_secs(1) + AT_ONCE, "{:?}", ended.elapsed());
    for replay in &seen {
        replay.assert("processing", true);
        assert_eq!(replay.message, first.message);
    }
    assert_eq!((shop.handler.started(), other.handler.started()), (1, 0));
    assert_eq!(store.asked(Operation::Claim), claims + 1);
}

#[tokio::test]
async fn waits_for_a_call_of_another_process_on_postgres() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let here = postgres(database.pool(4));
    let there = postgres(pool);
    let shop = Shop::with(|builder| wait(builder).store(here)).await;
    let other = Shop { user: shop.user, key: shop.key, ..Shop::with(|builder| wait(builder).store(there)).await };
    let first = shop.run_create("hold").await;
    let calls = spawn(&other, 20, "hold");
    let (idle, polls) = (proxy.round_trips(), 4);
    until("the other process polls", async || proxy.round_trips() >= idle + polls).await;

    shop.handler.open(1);
    let first = first.await.expect("no panic").expect("the first call");
    first.assert("processing", false);
    for replay in answers(calls).await {
        replay.assert("processing", true);
        assert_eq!(replay.message, first.message);
    }
    assert_eq!((shop.handler.started(), other.handler.started()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn runs_the_handler_when_the_call_of_another_process_fails() {
    let store = MemoryStore::new();
    let shop = shop_on(store.clone()).await;
    let other = shop.beside(|builder| wait(builder).store(store)).await;
    let first = shop.begin_create("hold and fail at first").await;
    let calls = spawn(&other, 3, "hold and fail at first");
    quiet().await;
    shop.handler.open(1);
    first.await.expect("no panic").expect_err("it failed");
    until("the other process runs it", async || other.handler.started() == 1).await;
    other.handler.open(2);
    let failed = calls.join_all().await.into_iter().filter(Result::is_err).count();
    assert_eq!((failed, other.handler.started(), other.handler.finished()), (1, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_disconnects_does_not_affect_the_others() {
    let (shop, store) = Shop::watched(wait).await;
    let first = shop.begin_create("hold").await;
    let waiters: Vec<_> = std::iter::repeat_with(|| shop.spawn_create("hold")).take(4).collect();
    quiet().await;
    waiters[1].abort();
    // The first client disconnects, too; its handler goes on.
    first.abort();
    quiet().await;
    assert_eq!((shop.handler.started(), store.asked(Operation::Claim)), (1, 1));

    shop.handler.open(1);
    for (waiter, disconnected) in waiters.into_iter().zip([false, true, false, false]) {
        match waiter.await {
            Err(aborted) => assert!(disconnected && aborted.is_cancelled()),
            Ok(seen) => {
                assert!(!disconnected);
                seen.expect("a response").assert("processing", true);
            }
        }
    }
    assert_eq!((shop.handler.started(), store.asked(Operation::Claim)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn another_waiter_polls_if_the_polling_waiter_disconnects() {
    let (shop, store) = Shop::watched(wait).await;
    let other = shop.beside(|builder| wait(builder).store(store.clone())).await;
    let first = shop.begin_create("hold").await;
    let poller = other.begin_create("hold").await;
    let waiters: Vec<_> = std::iter::repeat_with(|| other.spawn_create("hold")).take(2).collect();
    quiet().await;
    assert_eq!(store.asked(Operation::Claim), 2);
    poller.abort();
    // Another waiter polls now, and starts at once.
    quiet().await;
    assert_eq!(store.asked(Operation::Claim), 3);

    shop.handler.open(1);
    let first = first.await.expect("no panic").expect("the first call");
    for waiter in waiters {
        let seen = waiter.await.expect("no panic").expect("a response");
        seen.assert("processing", true);
        assert_eq!(seen.message, first.message);
    }
    assert_eq!(other.handler.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_request_is_refused_at_once() {
    let store = MemoryStore::new();
    let shop = shop_on(store.clone()).await;
    let other = shop.beside(|builder| wait(builder).store(store)).await;
    let first = shop.spawn_create("hold");
    let waiter = shop.begin_create("hold").await;
    for shop in [&shop, &other] {
        let began = Instant::now();
        assert_refused(shop.create("hold and more").await, Code::InvalidArgument, Reason::KeyReused);
        assert_refused(shop.pay("hold").await, Code::InvalidArgument, Reason::KeyReused);
        assert!(began.elapsed() < AT_ONCE);
    }
    // The refusals do not affect the waiter.
    shop.handler.open(1);
    first.await.expect("no panic").expect("the first call").assert("processing", false);
    waiter.await.expect("no panic").expect("a response").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_wakes_and_refuses_waiters() {
    let store = MemoryStore::new();
    let shop = shop_on(store.clone()).await;
    let other = shop.beside(|builder| wait(builder).store(store)).await;
    let first = shop.begin_create("hold").await;
    let mut waiters = spawn(&shop, 2, "hold");
    for _ in 0..2 {
        let other = other.with_key(other.key);
        waiters.spawn(async move { other.create("hold").await });
    }
    // By now the pauses between polls of the other process are long.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(waiters.len(), 4);

    let began = Instant::now();
    assert!(other.layer.shutdown(MAX_WAIT).await.unfinished.is_empty(), "a shutdown does not wait for waiters");
    let layer = shop.layer.clone();
    let shutdown = tokio::spawn(async move { layer.shutdown(MAX_WAIT).await });
    for refused in waiters.join_all().await {
        let status = assert_refused(refused, Code::Unavailable, Reason::ShuttingDown);
        assert_eq!(retry_delay(&status), Duration::from_secs(1));
    }
    assert!(began.elapsed() < AT_ONCE);
    // The shutdown waits for the first call.
    assert!(!shutdown.is_finished());
    shop.handler.open(1);
    first.await.expect("no panic").expect("the first call").assert("processing", false);
    assert!(shutdown.await.expect("no panic").unfinished.is_empty());
}

/// Otherwise each of them would run unprotected, one after the other.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_answer_of_a_call_that_ran_unprotected() {
    let store = Watched::default();
    let shop = Shop::in_memory(|builder| wait(builder).store(store.clone()).policies(proceeding())).await;
    store.fail(Operation::Claim, StoreErrorKind::Unreachable);
    let calls = spawn(&shop, 4, "hold");
    quiet().await;
    shop.handler.open(4);
    let seen = answers(calls).await;
    assert_eq!(shop.handler.started(), 1);
    assert!(seen.iter().all(|other| other.message == seen[0].message), "{seen:?}");
    // It is a replay for those that have waited, and the first one has no record.
    assert_eq!(seen.iter().filter(|seen| seen.replayed.is_some()).count(), 3, "{seen:?}");
}
