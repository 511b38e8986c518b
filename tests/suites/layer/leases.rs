//! Leases: how long a call holds its key, and outcomes that stay unknown because the effect may be committed.

use tokio_postgres::types::Type;
use tonic_idempotency::store::CompleteOutcome;

use crate::prelude::*;

/// A lease in paused time.
const LEASE: Duration = Duration::from_millis(150);

const HOUR: Duration = Duration::from_secs(3600);

/// A lease in real time: a busy machine has to renew it in time.
const REAL_LEASE: Duration = Duration::from_secs(3);

fn with_lease(builder: IdempotencyLayerBuilder, lease: Duration) -> IdempotencyLayerBuilder {
    builder.policies(Policies { lease, ..Policies::default() })
}

/// A shop on a store that is watched.
async fn watched() -> (Shop, Watched) {
    Shop::watched(|builder| with_lease(builder, LEASE)).await
}

async fn shop_on_postgres(database: &Database, lease: Duration) -> (Shop, PostgresStore) {
    let store = postgres(database.pool(4));
    (Shop::with(|builder| with_lease(builder, lease).store(store.clone())).await, store)
}

fn assert_in_progress(status: &Status, lease: Duration) {
    assert_rejected(status, Code::Aborted, Reason::InProgress);
    assert!(retry_delay(status) <= lease, "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_runs_for_many_leases_keeps_its_key_and_is_told_nothing() {
    let (shop, store) = watched().await;
    let calls = [shop.spawn_create("hold"), shop.with_new_key().spawn_create("lose")];
    let began = Instant::now();
    while began.elapsed() < LEASE * 40 {
        tokio::time::sleep(LEASE / 7).await;
        assert_in_progress(&shop.create("hold").await.expect_err("the first runs"), LEASE);
    }
    // Each of the two calls renews three times in a lease.
    let extended = store.asked(Operation::Extend);
    assert!((230..=242).contains(&extended), "{extended}");
    assert_eq!(shop.handler.lost(), 0);

    shop.handler.open(1);
    let [first, _] = calls;
    let first = first.await.expect("no panic").expect("the first call");
    let replay = shop.create("hold").await.expect("a replay");
    replay.assert("processing", true);
    assert_eq!((replay.message, shop.handler.started()), (first.message, 2));
}

/// A lease that ends by the clock of the store's server ends with it.
#[tokio::test(start_paused = true)]
async fn all_leases_are_renewed_at_once_if_the_stores_clock_jumps_ahead() {
    let (shop, store) = Shop::watched(|builder| with_lease(builder, HOUR)).await;
    store.clock.note(Instant::now(), HOUR);
    let calls = [shop.spawn_create("hold"), shop.with_new_key().spawn_create("lose")];
    until("both handlers run", async || shop.handler.started() == 2).await;
    for jumps in 1..=2 {
        store.clock.note(Instant::now(), 3 * jumps * HOUR);
        until("both leases are renewed", async || store.asked(Operation::Extend) == 2 * jumps as usize).await;
    }
    assert!(store.clock.shows_at(Instant::now()).is_some_and(|shown| shown < 7 * HOUR), "no lease was due");
    shop.handler.open(1);
    for call in calls {
        call.abort();
    }
}

/// Another server must not take its key over. Another thread of the runtime renews the lease. It is kept busy: while all others sleep,
/// Tokio may leave the timers to the blocked thread, which does not use `block_in_place`.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_for_many_leases_keeps_its_key() {
    let (database, owner) = Database::with_owner().await;
    let at_work = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    for name in ["block", "block in place"] {
        if name == "block in place" {
            at_work.abort();
        }
        let (shop, store) = shop_on_postgres(&database, REAL_LEASE).await;
        let call = shop.run_create(name).await;
        let over = "SELECT now() > created + 2 * $1 * interval '1 second' FROM tenant.idempotency_keys
                    WHERE idempotency_key = $2";
        until("two leases are over", async || {
            let claimed = store.claim(&shop.claim(CREATE, name)).await.expect("the store answers");
            assert!(matches!(claimed, ClaimOutcome::InFlight { .. }), "{name}: {claimed:?}");
            let params = [(&REAL_LEASE.as_secs_f64() as _, Type::FLOAT8), (&shop.key as _, Type::UUID)];
            owner.query_typed_one(over, &params).await.expect("the record").get(0)
        })
        .await;
        shop.handler.open(1);
        call.await.expect("no panic").expect("the first call").assert("processing", false);
        assert_eq!((shop.handler.started(), shop.handler.lost()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_was_told_keeps_its_key_again_if_no_other_call_took_it_meanwhile() {
    let (shop, store) = watched().await;
    let call = shop.begin_create("lose and hold").await;
    store.fail(Operation::Extend, StoreErrorKind::Unreachable);
    until("the handler is told", async || shop.handler.lost() == 1).await;
    store.mend(Operation::Extend);
    tokio::time::sleep(LEASE).await;
    for _ in 0..20 {
        tokio::time::sleep(LEASE / 7).await;
        assert_in_progress(&shop.create("lose and hold").await.expect_err("the first runs"), LEASE);
    }
    shop.handler.open(1);
    call.await.expect("no panic").expect("the first call").assert("processing", false);
    assert_eq!((shop.handler.started(), shop.handler.lost()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_as_soon_as_its_unrenewed_lease_ends_and_not_before() {
    let (long, slow) = (Duration::from_secs(300), Duration::from_secs(5));
    // Attempts to renew it fail, at once or slowly, or are never answered.
    for (lease, fails) in [(LEASE, Some(Duration::ZERO)), (LEASE, None), (long, Some(slow))] {
        let (shop, store) = Shop::watched(|builder| with_lease(builder, lease)).await;
        let began = Instant::now();
        let call = shop.begin_create("lose").await;
        match fails {
            Some(after) => store.fail_after(Operation::Extend, StoreErrorKind::Unreachable, after),
            None => store.hang(Operation::Extend),
        }
        // It ends when it learns of the loss. No other call took the key, so its outcome is recorded.
        call.await.expect("no panic").expect("it succeeded");
        let told = began.elapsed();
        assert!(told >= lease && told <= lease + Duration::from_millis(20), "told after {told:?} of {lease:?}");
        assert_eq!(shop.handler.lost(), 1);
        shop.create("lose").await.expect("a replay").assert("processing", true);
    }
}

#[tokio::test]
async fn a_handler_is_told_that_its_key_was_taken_over_and_completes_nothing_on_postgres() {
    let (database, owner) = Database::with_owner().await;
    let (shop, store) = shop_on_postgres(&database, REAL_LEASE).await;
    let late = shop.run_create("lose and hold").await;
    // Another process takes the key over, as if the lease had ended.
    let next = Reservation { token: Uuid::new_v4(), ..shop.claim("", "").reservation };
    let take_over = "UPDATE tenant.idempotency_keys
                     SET token = $1, attempts = attempts + 1, lease_expires = now() + interval '1 hour'";
    let taken = owner.execute_typed(take_over, &[(&next.token, Type::UUID)]).await.expect("the record");
    assert_eq!((taken, shop.handler.lost()), (1, 0));
    until("the handler is told", async || shop.handler.lost() == 1).await;

    shop.handler.open(1);
    let late = late.await.expect("no panic").expect("its caller gets its answer");
    assert_in_progress(&shop.create("lose and hold").await.expect_err("the next runs"), REAL_LEASE);

    let order = Order { id: Uuid::new_v4().to_string(), name: "of the next".to_owned() };
    let reply = CreateOrderReply { order: Some(order), ..Default::default() };
    let completion = Completion {
        response: StoredResponse::message(reply.encode_to_vec()),
        resource: None,
        retention: Duration::from_secs(3600),
    };
    assert_eq!(store.complete(&next, &completion).await.expect("the store answers"), CompleteOutcome::Completed);
    let replay = shop.create("lose and hold").await.expect("a replay");
    replay.assert("processing", true);
    assert!(replay.message.contains("of the next") && !late.message.contains("of the next"), "{replay:?} {late:?}");
    let record = owner.query_one("SELECT token, attempts FROM tenant.idempotency_keys", &[]).await.expect("one");
    assert_eq!((record.get::<_, Uuid>(0), record.get::<_, i32>(1)), (next.token, 2));
}

#[tokio::test]
async fn a_handler_that_fails_after_its_key_was_taken_over_frees_nothing_on_postgres() {
    let (database, owner) = Database::with_owner().await;
    let (shop, _) = shop_on_postgres(&database, REAL_LEASE).await;
    for name in ["lose and fail", "effect and lose and fail"] {
        let shop = shop.with_new_key();
        let lost = shop.handler.lost();
        let late = shop.spawn_create(name);
        let taken_over = async || {
            let take_over = "UPDATE tenant.idempotency_keys
                             SET token = gen_random_uuid(), lease_expires = now() + interval '1 hour'
                             WHERE idempotency_key = $1";
            owner.execute_typed(take_over, &[(&shop.key, Type::UUID)]).await.expect("the record") == 1
        };
        until("the key is taken over", taken_over).await;
        until("the handler is told", async || shop.handler.lost() == lost + 1).await;
        assert_eq!(late.await.expect("no panic").expect_err("it fails").code(), Code::NotFound);
        assert_refused(shop.create(name).await, Code::Aborted, Reason::InProgress);
    }
}

#[tokio::test]
async fn a_handler_is_told_if_the_store_is_unreachable_until_its_lease_ends() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = postgres(pool);
    let shop = Shop::with(|builder| with_lease(builder, REAL_LEASE).store(store)).await;
    let call = shop.run_create("lose and hold").await;
    proxy.cut();
    until("the handler is told", async || shop.handler.lost() == 1).await;
    proxy.mend();
    // No other call took the key, so its outcome is recorded.
    shop.handler.open(1);
    call.await.expect("no panic").expect("it succeeded").assert("processing", false);
    until("it is recorded", async || shop.create("lose and hold").await.is_ok()).await;
    shop.create("lose and hold").await.expect("a replay").assert("processing", true);
    assert_eq!(shop.handler.started(), 1);
}

async fn an_effect_is_not_repeated_when_its_handler_fails(store: impl Store + Clone) {
    for policy in [LeasePolicy::Rerun, LeasePolicy::Refuse] {
        let policies = Policies { on_lease_ended: policy, ..Policies::default() };
        let shop = Shop::with(|builder| builder.store(store.clone()).policies(policies)).await;
        for (name, code) in [("effect and fail", Code::NotFound), ("effect and panic", Code::Internal)] {
            let shop = shop.with_new_key();
            let started = shop.handler.started();
            let first = shop.create(name).await.expect_err("it fails");
            assert_eq!((first.code(), Reason::of(&first)), (code, None), "its caller gets its answer");
            for _ in 0..2 {
                assert_refused(shop.create(name).await, Code::FailedPrecondition, Reason::OutcomeUnknown);
            }
            assert_refused(shop.create("a").await, Code::InvalidArgument, Reason::KeyReused);
            assert_eq!(shop.handler.started(), started + 1, "{policy:?}: {name}");
        }
        for name in ["fail", "panic"] {
            let shop = shop.with_new_key();
            shop.create(name).await.expect_err("it fails");
            shop.create("a").await.expect("the key is free").assert("processing", false);
        }
        let shop = shop.with_new_key();
        let first = shop.create("effect").await.expect("it succeeds");
        first.assert("processing", false);
        shop.create("effect").await.expect("a replay").assert_replays("processing", &first);
    }
}
on_both_stores!(an_effect_is_not_repeated_when_its_handler_fails);
