//! Abandoned calls that no client retries: the background task asks the reconciler.

use std::time::{SystemTime, UNIX_EPOCH};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio_postgres::types::Type;
use tonic_idempotency::{maintenance::Recovered, store::Claim};

use crate::prelude::*;
use crate::reconcile::scene;

/// Abandons this many keys, like servers that die. Returns the oldest first.
async fn abandoned(shop: &Shop, store: &impl Store, keys: usize) -> Vec<Shop> {
    let mut shops = Vec::new();
    for _ in 0..keys {
        let shop = shop.with_new_key();
        shop.die(store, CREATE, "a").await;
        shops.push(shop);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    shops
}

fn counts(recovered: &Recovered) -> [u64; 3] {
    [recovered.completed, recovered.not_executed, recovered.unknown]
}

fn keys_asked(witness: &Witness) -> Vec<Option<Uuid>> {
    witness.asked().iter().map(|asked| Some(*asked.key.as_uuid())).collect()
}

async fn recovers_abandoned_keys_and_no_others(store: impl Store + Clone) {
    let witness = Witness::new(Answer::Unknown);
    let shop = Shop::with(|builder| reconcile(builder, &witness).store(store.clone())).await;
    // Abandoned calls of several users, none of whom retries.
    let mut shops = abandoned(&shop, &store, 2).await;
    for answer in [Answer::found("found"), Answer::NotExecuted, Answer::Fails, Answer::Panics] {
        let shop = shop.by_another_user();
        shop.die(&store, CREATE, "a").await;
        witness.says_of(shop.key, answer);
        shops.push(shop);
    }
    witness.says_of(shops[1].key, Answer::found("found too"));
    // A running call, a call that has ended, and two abandoned calls of procedures with other policies.
    let running = shop.with_new_key();
    let call = running.run_create("hold").await;
    let completed = shop.with_new_key();
    let first = completed.create("a").await.expect("the first call");
    let [rerun, refuse] = [(); 2].map(|()| shop.with_new_key());
    rerun.die(&store, "/shop.v1.Shop/Touch", "a").await;
    refuse.die(&store, "/shop.v1.Shop/Pay", "a").await;

    assert_eq!(counts(&shop.layer.recovery().recover().await.expect("the store answers")), [2, 1, 3]);
    let mut asked = keys_asked(&witness);
    let mut expected: Vec<_> = shops.iter().map(|shop| shop.key).collect();
    asked.sort_unstable();
    expected.sort_unstable();
    assert_eq!(asked, expected);
    for asked in witness.asked() {
        assert_eq!((asked.procedure.as_str(), &asked.request, &asked.caller), (CREATE, &None, &None));
        let shop = shops.iter().find(|shop| shop.key == Some(*asked.key.as_uuid())).expect("one of them");
        assert_eq!(Some(*asked.owner.as_uuid()), shop.user);
    }
    assert_eq!(shop.handler.started(), 2, "recovery has run no handler");

    // Found responses are replayed, calls that were not executed run, and the other outcomes are unknown.
    for shop in &shops[1..=2] {
        let found = shop.create("a").await.expect("a replay");
        found.assert("processing", true);
        assert!(found.message.contains("found"), "{found:?}");
    }
    assert_eq!(witness.asked().len(), 6, "found calls are not asked about again");
    shops[3].create("a").await.expect("it runs").assert("processing", false);
    assert_refused(shops[0].create("a").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
    assert_eq!(witness.asked().len(), 8, "the others are asked about again");

    shop.handler.open(1);
    call.await.expect("no panic").expect("it ran to its end").assert("processing", false);
    assert_eq!(completed.create("a").await.expect("a replay").message, first.message);
    rerun.touch("a").await.expect("it runs again").assert("completed", false);
    assert_refused(refuse.pay("a").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
    // The next recovery asks about unknown outcomes again.
    assert_eq!(counts(&shop.layer.recovery().recover().await.expect("the store answers")), [0, 0, 3]);
}
on_both_stores!(recovers_abandoned_keys_and_no_others);

#[tokio::test(start_paused = true)]
async fn asks_about_at_most_a_batch_and_the_oldest_first() {
    let (shop, store, witness) = scene(MemoryStore::new(), Answer::found("found")).await;
    let shops = abandoned(&shop, &store, 5).await;
    let recovery = shop.layer.recovery().batch(2);
    for completed in [2, 2, 1, 0] {
        assert_eq!(counts(&recovery.recover().await.expect("the store answers")), [completed, 0, 0]);
    }
    assert_eq!(keys_asked(&witness), shops.iter().map(|shop| shop.key).collect::<Vec<_>>());
    // Running calls do not count towards the batch.
    let running = [(); 3].map(|()| shop.with_new_key().spawn_create("hold"));
    quiet().await;
    abandoned(&shop, &store, 1).await;
    assert_eq!(counts(&recovery.recover().await.expect("the store answers")), [1, 0, 0]);
    drop(running);
    // A batch of zero is a batch of one.
    abandoned(&shop, &store, 2).await;
    assert_eq!(counts(&shop.layer.recovery().batch(0).recover().await.expect("the store answers")), [1, 0, 0]);
}

/// The call that died counts as the first attempt. The reconciler is asked at least once.
#[tokio::test(start_paused = true)]
async fn stops_asking_about_a_key_after_max_attempts() {
    for (attempts, asked) in [(4, 3), (0, 1)] {
        let (shop, store, witness) = scene(MemoryStore::new(), Answer::Unknown).await;
        let [abandoned] = <[_; 1]>::try_from(abandoned(&shop, &store, 1).await).ok().expect("one");
        let recovery = shop.layer.recovery().max_attempts(attempts);
        for run in 1..=5 {
            let unknown = u64::from(run <= asked);
            assert_eq!(counts(&recovery.recover().await.expect("the store answers")), [0, 0, unknown]);
        }
        assert_eq!(witness.asked().len(), asked);
        // Clients' retries are not limited.
        abandoned.create("a").await.expect_err("the outcome is unknown");
        assert_eq!(witness.asked().len(), asked + 1);
        assert_eq!(counts(&recovery.recover().await.expect("the store answers")), [0, 0, 0]);
        assert_eq!(counts(&shop.layer.recovery().recover().await.expect("ten by default")), [0, 0, 1]);
    }
}

#[tokio::test]
async fn concurrent_recoveries_ask_once_about_each_key_on_postgres() {
    let database = Database::new().await;
    let (shop, store, witness) = scene(postgres(database.pool(8)), Answer::found("found")).await;
    abandoned(&shop, &store, 20).await;
    let recoveries = [(); 4].map(|()| {
        let recovery = shop.layer.recovery();
        tokio::spawn(async move { recovery.recover().await })
    });
    let mut completed = 0;
    for recovery in recoveries {
        completed += recovery.await.expect("no panic").expect("the store answers").completed;
    }
    assert_eq!((completed, witness.asked().len()), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn runs_at_each_interval_until_it_is_stopped() {
    let (shop, store, witness) = scene(MemoryStore::new(), Answer::found("found")).await;
    let interval = Duration::from_secs(10);
    abandoned(&shop, &store, 2).await;
    let recovering = shop.layer.recovery().interval(interval).spawn();
    quiet().await;
    assert_eq!(witness.asked().len(), 2, "at once");
    abandoned(&shop, &store, 1).await;
    tokio::time::sleep(interval - Duration::from_millis(100)).await;
    assert_eq!(witness.asked().len(), 2, "not before its time");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(witness.asked().len(), 3, "after the interval");

    recovering.stop().await;
    abandoned(&shop, &store, 1).await;
    tokio::time::sleep(interval * 10).await;
    assert_eq!(witness.asked().len(), 3, "it was stopped");
}

/// The value of the gauge since the last look at it.
fn unknown(snapshotter: &Snapshotter) -> Option<f64> {
    let values = snapshotter.snapshot().into_vec();
    values.into_iter().find_map(|(key, .., value)| match value {
        DebugValue::Gauge(value) if key.key().name() == "idempotency_unknown" => Some(*value),
        _ => None,
    })
}

/// The gauge counts the keys of all procedures, whatever their policies, at each run anew.
#[tokio::test(start_paused = true)]
async fn shows_how_many_keys_are_left_without_an_outcome() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // All tasks run on this thread.
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let unknown = || unknown(&snapshotter);
    let (shop, store, witness) = scene(MemoryStore::new(), Answer::found("found")).await;
    let interval = Duration::from_secs(10);
    let recovering = shop.layer.recovery().interval(interval).spawn();
    quiet().await;
    assert_eq!(unknown(), Some(0.0));
    let shops = abandoned(&shop, &store, 3).await;
    witness.says_of(shops[0].key, Answer::Unknown);
    shop.with_new_key().die(&store, "/shop.v1.Shop/Touch", "a").await;
    tokio::time::sleep(interval).await;
    assert_eq!(unknown(), Some(2.0), "one that its reconciler does not know, and one that nobody asks about");
    witness.says_of(shops[0].key, Answer::found("found"));
    tokio::time::sleep(interval).await;
    assert_eq!(unknown(), Some(1.0));
    recovering.stop().await;
}

/// However old it is: until it has an outcome, or has expired.
#[tokio::test(start_paused = true)]
async fn shows_a_key_without_an_outcome_until_it_is_gone() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let (shop, store, witness) = scene(Watched::default(), Answer::Unknown).await;
    let [interval, lookback] = [10, 60].map(Duration::from_secs);
    let recovery = || shop.layer.recovery().interval(interval).lookback(lookback);
    let recovering = recovery().spawn();
    quiet().await;
    let shops = abandoned(&shop, &store, 4).await;
    let shows = async |expected: f64, when: &str| {
        tokio::time::sleep(interval).await;
        assert_eq!(unknown(&snapshotter), Some(expected), "{when}");
    };
    tokio::time::sleep(lookback * 10).await;
    shows(4.0, "far beyond the lookback").await;

    witness.says_of(shops[0].key, Answer::found("found"));
    shops[0].create("a").await.expect("a replay").assert("processing", true);
    shows(3.0, "one is recovered").await;
    // A retry takes a key over, and dies, too.
    let lease = interval * 3;
    let retry = Claim { on_lease_ended: LeasePolicy::Reconcile, lease, ..shops[1].claim(CREATE, "a") };
    store.claim(&retry).await.expect("the store answers");
    shows(2.0, "it runs").await;
    tokio::time::sleep(lease).await;
    shows(3.0, "its lease has ended").await;

    // While the store cannot say, the gauge keeps its value. A key that was abandoned then is found, however long that took.
    store.fail(Operation::LookUp, StoreErrorKind::Unreachable);
    abandoned(&shop, &store, 1).await;
    tokio::time::sleep(lookback * 10).await;
    store.mend(Operation::LookUp);
    shows(4.0, "the store is back").await;
    recovering.stop().await;
    let recovering = recovery().spawn();
    shows(4.0, "after a restart").await;
    tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    shows(0.0, "all have expired").await;
    recovering.stop().await;
}

#[tokio::test(start_paused = true)]
async fn goes_on_after_a_run_that_failed() {
    let (shop, store, witness) = scene(Watched::default(), Answer::found("found")).await;
    let shops = abandoned(&shop, &store, 2).await;
    store.fail(Operation::Claim, StoreErrorKind::Unreachable);
    let recovered = shop.layer.recovery().recover().await.expect("the store tells which calls there are");
    assert_eq!((counts(&recovered), recovered.failed), ([0, 0, 0], 2));
    let recovering = shop.layer.recovery().spawn();
    quiet().await;
    assert!(witness.asked().is_empty());
    store.mend(Operation::Claim);
    // The lookback does not apply: the first run has not succeeded yet.
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(keys_asked(&witness), shops.iter().map(|shop| shop.key).collect::<Vec<_>>());
    recovering.stop().await;
}

#[tokio::test(start_paused = true)]
async fn goes_on_with_the_other_calls_if_one_cannot_be_claimed() {
    let (shop, store, witness) = scene(Watched::default(), Answer::found("found")).await;
    let shops = abandoned(&shop, &store, 5).await;
    store.fail_next(Operation::Claim, StoreErrorKind::Corrupt);
    let recovered =
        shop.layer.recovery().concurrency(2).recover().await.expect("the store tells which calls there are");
    assert_eq!((counts(&recovered), recovered.failed), ([4, 0, 0], 1));
    assert_eq!(keys_asked(&witness), shops[1..].iter().map(|shop| shop.key).collect::<Vec<_>>());
    // The next run recovers it.
    let recovered = shop.layer.recovery().recover().await.expect("the store answers");
    assert_eq!((counts(&recovered), recovered.failed), ([1, 0, 0], 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reconciler_does_not_delay_the_other_calls() {
    let (shop, store, witness) = scene(MemoryStore::new(), Answer::found("found")).await;
    let shops = abandoned(&shop, &store, 10).await;
    witness.says_of(shops[0].key, Answer::found("found").held());
    let recovering = shop.layer.recovery().spawn();
    quiet().await;
    assert_eq!(witness.asked().len(), 10);
    for shop in &shops[1..] {
        shop.create("a").await.expect("a replay").assert("processing", true);
    }
    assert_refused(shops[0].create("a").await, Code::Aborted, Reason::InProgress);
    witness.open(1);
    recovering.stop().await;
    shops[0].create("a").await.expect("a replay").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn recovers_at_most_concurrency_calls_at_a_time() {
    for (recovery, concurrency) in [(None, 8), (Some(3), 3), (Some(0), 1)] {
        let (shop, store, witness) = scene(MemoryStore::new(), Answer::found("found").held()).await;
        abandoned(&shop, &store, 10).await;
        let default = shop.layer.recovery();
        let recovering = match recovery {
            Some(calls) => default.concurrency(calls).spawn(),
            None => default.spawn(),
        };
        quiet().await;
        assert_eq!(witness.asked().len(), concurrency);
        witness.open(1);
        quiet().await;
        assert_eq!(witness.asked().len(), concurrency + 1, "the next one takes its place");
        let stopped = tokio::spawn(recovering.stop());
        quiet().await;
        assert!(!stopped.is_finished(), "it ends what it has begun");
        witness.open(10);
        stopped.await.expect("no panic");
        assert_eq!(witness.asked().len(), concurrency + 1, "it has ended what it had begun, and no more");
    }
}

#[tokio::test(start_paused = true)]
async fn durations_of_any_length_are_possible() {
    let (shop, store, witness) = scene(MemoryStore::new(), Answer::found("found")).await;
    for duration in [Duration::ZERO, Duration::MAX] {
        abandoned(&shop, &store, 1).await;
        let asked = witness.asked().len();
        let recovering = shop.layer.recovery().interval(duration).lookback(duration).spawn();
        until("the first run is over", async || witness.asked().len() > asked).await;
        recovering.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_count_a_found_response_before_it_is_recorded() {
    let (shop, store, witness) = scene(Watched::default(), Answer::found("found")).await;
    let [abandoned] = <[_; 1]>::try_from(abandoned(&shop, &store, 1).await).ok().expect("one");
    store.fail(Operation::Complete, StoreErrorKind::Unreachable);
    let recovered = shop.layer.recovery().recover().await.expect("the store answers");
    assert_eq!((counts(&recovered), recovered.failed), ([0, 0, 0], 1));
    store.mend(Operation::Complete);
    tokio::time::sleep(Duration::from_secs(10)).await;
    abandoned.create("a").await.expect("a replay").assert("processing", true);
    assert_eq!((witness.asked().len(), shop.handler.started()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn looks_back_without_limit_once_and_then_no_further_than_lookback() {
    let (shop, store, witness) = scene(MemoryStore::new(), Answer::Unknown).await;
    let [old] = <[_; 1]>::try_from(abandoned(&shop, &store, 1).await).ok().expect("one");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let recovery = shop.layer.recovery().interval(Duration::from_secs(10)).lookback(Duration::from_secs(60));
    let recovering = recovery.spawn();
    quiet().await;
    let [young] = <[_; 1]>::try_from(abandoned(&shop, &store, 1).await).ok().expect("one");
    tokio::time::sleep(Duration::from_secs(600)).await;
    recovering.stop().await;
    let asked = |shop: &Shop| keys_asked(&witness).iter().filter(|key| **key == shop.key).count();
    // There are six runs in a minute.
    assert_eq!((asked(&old), asked(&young)), (1, 6));
}

#[tokio::test]
async fn looks_back_without_limit_once_and_then_no_further_than_lookback_on_postgres() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let (database, owner) = Database::with_owner().await;
    let store = postgres(database.pool(4));
    let witness = Witness::new(Answer::Unknown);
    let shop = Shop::with(|builder| reconcile(builder, &witness).store(store.clone())).await;
    shop.die(&store, CREATE, "a").await;
    // The time of the reservation is in the id, whose first 48 bits are its milliseconds.
    let hours_ago = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") - Duration::from_secs(2 * 3600);
    let hours_ago = Uuid::from_u128(hours_ago.as_millis() << 80);
    let older = "UPDATE tenant.idempotency_keys SET id = $1, created = created - interval '2 hours'";
    owner.execute_typed(older, &[(&hours_ago, Type::UUID)]).await.expect("time");
    let recovering = shop.layer.recovery().interval(Duration::from_millis(5)).spawn();
    until("the first run is over", async || witness.asked().len() == 1).await;
    let young = shop.with_new_key();
    young.die(&store, CREATE, "a").await;
    until("three more runs are over", async || witness.asked().len() == 4).await;
    until("the gauge counts both", async || unknown(&snapshotter) == Some(2.0)).await;
    recovering.stop().await;
    let old = keys_asked(&witness).iter().filter(|key| **key == shop.key).count();
    assert_eq!(old, 1);
}

#[tokio::test(start_paused = true)]
async fn does_not_call_the_store_if_no_procedure_is_reconciled() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    shop.die(&store, CREATE, "a").await;
    assert_eq!(counts(&shop.layer.recovery().recover().await.expect("nothing to do")), [0, 0, 0]);
    assert_eq!(store.asked(Operation::Claim), 1, "the claim of the call that died");
    shop.create("a").await.expect("it runs again").assert("processing", false);

    let shop = Shop::in_memory(|builder| builder).await;
    assert_eq!(counts(&shop.layer.recovery().recover().await.expect("nothing to do")), [0, 0, 0]);
}
