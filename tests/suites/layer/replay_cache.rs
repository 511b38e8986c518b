//! Replays from memory.

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tonic_idempotency::store::StoredMessage;

use crate::prelude::*;
use crate::{
    metadata::{self, timeless},
    raw,
    status::Says,
};

const TOUCH: &str = "/shop.v1.Shop/Touch";

/// The number of claims that a call makes, and its result.
async fn asked<T>(store: &Watched, call: impl Future<Output = T>) -> (usize, T) {
    let before = store.asked(Operation::Claim);
    let answer = call.await;
    (store.asked(Operation::Claim) - before, answer)
}

/// Asserts that a call is a replay with this status; returns the number of its claims.
async fn replayed(store: &Watched, call: impl Future<Output = Result<Seen, Status>>, status: &str) -> usize {
    let (claims, replay) = asked(store, call).await;
    replay.expect("a replay").assert(status, true);
    claims
}

#[tokio::test(start_paused = true)]
async fn a_replay_of_finished_work_claims_once_and_then_hits_the_cache() {
    for (outbox, status) in [(OutboxStatus::Completed, "completed"), (OutboxStatus::Failed, "failed")] {
        let (shop, store) = Shop::watched(|builder| builder).await;
        let first = shop.create("a").await.expect("the first call");
        store.set_status(order_id(&first), outbox);
        let mut claims = Vec::new();
        for _ in 0..5 {
            let (asked, replay) = asked(&store, shop.create("a")).await;
            let replay = replay.expect("a replay");
            replay.assert(status, true);
            assert_eq!(replay.message, first.message);
            claims.push(asked);
        }
        assert_eq!((claims.as_slice(), shop.handler.started()), ([1, 0, 0, 0, 0].as_slice(), 1));
    }
    // The same for a call that creates no tracked resource.
    let (shop, store) = Shop::watched(|builder| builder).await;
    shop.touch("a").await.expect("the first call");
    assert_eq!(replayed(&store, shop.touch("a"), "completed").await, 1);
    assert_eq!(replayed(&store, shop.touch("a"), "completed").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_replay_whose_status_lookup_failed_is_not_cached() {
    for (outbox, status, claims) in [(Says::Fails, "processing", 1), (Says::Status(OutboxStatus::Failed), "failed", 0)]
    {
        let (shop, store) = Shop::watched(|builder| builder.status_resolver(outbox)).await;
        shop.create("a").await.expect("the first call");
        assert_eq!(replayed(&store, shop.create("a"), status).await, 1);
        assert_eq!(replayed(&store, shop.create("a"), status).await, claims, "{outbox:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_record_claims_each_time() {
    // Too large to store.
    let (shop, store) = Shop::watched(|builder| builder.max_response_bytes(1).status_resolver(done())).await;
    shop.create("a").await.expect("the first call");
    for _ in 0..3 {
        let (claims, refused) = asked(&store, shop.create("a")).await;
        assert_refused(refused, Code::FailedPrecondition, Reason::NotStored);
        assert_eq!(claims, 1);
    }
    // The outcome is unknown.
    let (shop, store) = Shop::watched(|builder| builder).await;
    shop.touch("effect and fail").await.expect_err("it fails");
    for _ in 0..3 {
        let (claims, refused) = asked(&store, shop.touch("effect and fail")).await;
        assert_refused(refused, Code::FailedPrecondition, Reason::OutcomeUnknown);
        assert_eq!(claims, 1);
    }
    // The metadata or the error is malformed.
    let unreadable = StoredMessage { message: Vec::new().into(), metadata: Some(vec![0xff].into()) };
    for response in [StoredResponse::Message(unreadable), StoredResponse::Error(vec![0xff].into())] {
        let (shop, store) = Shop::watched(|builder| builder).await;
        let claim = shop.claim(TOUCH, "a");
        store.claim(&claim).await.expect("the store answers");
        let completion = Completion { response, resource: None, retention: claim.retention };
        store.complete(&claim.reservation, &completion).await.expect("the store answers");
        for _ in 0..3 {
            let (claims, _) = asked(&store, shop.touch("a")).await;
            assert_eq!(claims, 1, "{completion:?}");
        }
        assert_eq!(shop.handler.started(), 0);
    }
}

fn done() -> Says {
    Says::Status(OutboxStatus::Completed)
}

#[tokio::test(start_paused = true)]
async fn a_cached_replay_expires_after_a_minute_by_default() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let order = order_id(&shop.create("a").await.expect("the first call"));
    store.set_status(order, OutboxStatus::Failed);
    assert_eq!(replayed(&store, shop.create("a"), "failed").await, 1);
    // By default, a change of a failed job goes unnoticed for a minute.
    store.set_status(order, OutboxStatus::Pending);
    for _ in 0..59 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(replayed(&store, shop.create("a"), "failed").await, 0);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..2 {
        assert_eq!(replayed(&store, shop.create("a"), "processing").await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn takes_no_more_memory_than_replay_cache_bytes() {
    const BYTES: usize = 128 << 10;
    const KEYS: usize = 100;
    let (shop, store) = Shop::watched(|builder| builder.replay_cache_bytes(BYTES).status_resolver(done())).await;
    for size in [100, 1000, 3000] {
        let name = "a".repeat(size);
        let keys: Vec<_> = (0..KEYS).map(|_| shop.with_new_key()).collect();
        for shop in &keys {
            shop.create(&name).await.expect("the first call");
            assert_eq!(replayed(&store, shop.create(&name), "completed").await, 1);
            assert_eq!(replayed(&store, shop.create(&name), "completed").await, 0, "there is room for a new entry");
        }
        let mut known = 0;
        for shop in &keys {
            known += 1 - replayed(&store, shop.create(&name), "completed").await;
        }
        assert!(known * size <= BYTES, "{known} responses of {size} bytes are known");
    }
    // A response that needs a large part of the cache is not cached.
    let name = "a".repeat(BYTES / 16);
    shop.create(&name).await.expect("the first call");
    for _ in 0..3 {
        assert_eq!(replayed(&store, shop.create(&name), "completed").await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn claims_each_time_if_it_is_turned_off() {
    let off: [fn(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder; 2] =
        [|builder| builder.replay_cache_bytes(0), |builder| builder.replay_cache_max_age(Duration::ZERO)];
    for off in off {
        let (shop, store) = Shop::watched(off).await;
        shop.touch("a").await.expect("the first call");
        for _ in 0..3 {
            assert_eq!(replayed(&store, shop.touch("a"), "completed").await, 1);
        }
    }
}

/// Compares headers, message and trailers, compressed or not, also of errors.
#[tokio::test]
async fn gives_the_same_replay_as_the_store() {
    let (store, oracle) = (Watched::default(), done());
    let shop = metadata::shop(|builder| {
        builder
            .store(store.clone())
            .status_resolver(oracle)
            .adjust_procedures(|procedure| procedure.final_errors([Code::FailedPrecondition]))
            .compress_replays_from(0)
    })
    .await;
    for (path, style, name) in metadata::CASES {
        let shop = shop.with_new_key();
        metadata::call(&shop, path, style, name).await;
        for accepts in ["identity", "gzip"] {
            let message = prost::Message::encode_to_vec(shop::request(name, None, None).get_ref());
            let call =
                async || raw::post(&shop, path, &[("grpc-accept-encoding", accepts)], raw::frame(0, &message)).await;
            let ((asked_first, one), (asked_then, other)) = (asked(&store, call()).await, asked(&store, call()).await);
            let case = format!("{path} {style} {name} {accepts}");
            assert_eq!((asked_first, asked_then), (usize::from(accepts == "identity"), 0), "{case}");
            assert_eq!(timeless(&other.headers), timeless(&one.headers), "{case}");
            assert_eq!((other.body, other.trailers), (one.body, one.trailers), "{case}");
            assert_eq!(one.headers["idempotent-replayed"], "true", "{case}");
        }
    }
}

/// A thousand duplicates at once, of a procedure whose duplicates wait, while `max_waiting` is zero.
#[tokio::test(start_paused = true)]
async fn does_not_make_duplicates_wait() {
    let none_waits = Limits { waiting: Limit::new(0, 256), ..Limits::default() };
    let (shop, store) = Shop::watched(|builder| builder.limits(none_waits)).await;
    for _ in 0..2 {
        shop.cancel("a").await.expect("a call");
    }
    let before = store.asked(Operation::Claim);
    let calls = shop.spawn_all(1000, |shop| async move { shop.cancel("a").await });
    for replay in calls.join_all().await {
        replay.expect("a replay").assert("completed", true);
    }
    assert_eq!((store.asked(Operation::Claim), shop.handler.started()), (before, 1));
}

/// Waiters get the response of the first call with its status. That response is not cached.
#[tokio::test(start_paused = true)]
async fn does_not_cache_a_first_response() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let calls = shop.spawn_all(3, |shop| async move { shop.cancel("hold").await });
    quiet().await;
    shop.handler.open(1);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
    assert_eq!(replayed(&store, shop.cancel("hold"), "completed").await, 1);
    assert_eq!(replayed(&store, shop.cancel("hold"), "completed").await, 0);
}

/// Random sequences of calls, status changes and expiries give the same answers with and without the cache.
#[tokio::test(start_paused = true)]
async fn changes_no_answer() {
    for seed in 0..8 {
        let steps = steps(&mut StdRng::seed_from_u64(seed));
        let (with, without) = (run(&steps, 8 << 20).await, run(&steps, 0).await);
        for (step, (with, without)) in with.0.iter().zip(&without.0).enumerate() {
            assert_eq!(with, without, "seed {seed}, step {step} of {steps:?}");
        }
        assert!(with.1 <= without.1, "seed {seed}: {} claims, and {} without the cache", with.1, without.1);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call { user: usize, key: usize, procedure: usize, name: &'static str },
    Finish { order: u32, status: OutboxStatus },
    Wait(Duration),
}

fn steps(rng: &mut StdRng) -> Vec<Step> {
    let mut pick = |of: usize| rng.random_range(0..of);
    let names = ["a", "a", "a", "b", "fail", "fail for good", "effect and fail"];
    let step = |_| match pick(10) {
        0 => Step::Finish {
            order: u32::try_from(pick(1 << 16)).expect("a small number"),
            status: [OutboxStatus::Completed, OutboxStatus::Failed, OutboxStatus::Retrying][pick(3)],
        },
        1 => Step::Wait(Duration::from_secs([1, 10, 20, 40][pick(4)])),
        _ => {
            Step::Call { user: pick(2), key: pick(3), procedure: [0, 0, 1, 2][pick(4)], name: names[pick(names.len())] }
        }
    };
    (0..150).map(step).collect()
}

/// Runs the steps. Returns what the callers see, with orders numbered as they appear, and the number of claims.
async fn run(steps: &[Step], cache: usize) -> (Vec<String>, usize) {
    let policies = |procedure: ProcedureBuilder| {
        procedure.retention(Duration::from_secs(45)).final_errors([Code::FailedPrecondition])
    };
    let (shop, store) = Shop::watched(|builder| builder.adjust_procedures(policies).replay_cache_bytes(cache)).await;
    let (users, keys) = ([0; 2].map(|_| Uuid::new_v4()), [0; 3].map(|_| Uuid::new_v4()));
    let (mut orders, mut finished) = (Vec::new(), HashMap::new());
    let mut seen = Vec::new();
    for step in steps {
        match *step {
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Finish { order, status } => {
                // A finished order stays finished.
                if let Some(order) = (order as usize).checked_rem(orders.len()).map(|order| orders[order])
                    && !matches!(finished.get(&order), Some(OutboxStatus::Completed | OutboxStatus::Failed))
                {
                    finished.insert(order, status);
                    store.set_status(order, status);
                }
            }
            Step::Call { user, key, procedure, name } => {
                let shop = Shop { user: Some(users[user]), ..shop.with_key(Some(keys[key])) };
                let answer = match procedure {
                    0 => shop.create(name).await,
                    1 => shop.touch(name).await,
                    _ => shop.cancel(name).await,
                };
                let order = answer.as_ref().ok().filter(|_| procedure == 0).map(order_id);
                let order = order.map(|id| {
                    orders.iter().position(|known| *known == id).unwrap_or_else(|| {
                        orders.push(id);
                        orders.len() - 1
                    })
                });
                seen.push(match answer {
                    Ok(Seen { status, replayed, .. }) => format!("{order:?} {status:?} {replayed:?}"),
                    Err(status) => {
                        let replayed = status.metadata().get("idempotent-replayed");
                        format!("{:?} {:?} {replayed:?}", status.code(), status.message())
                    }
                });
                seen.push(format!("{} handlers", shop.handler.started()));
            }
        }
    }
    (seen, store.asked(Operation::Claim))
}

/// The call arrives before the shutdown, and its message only afterwards.
#[tokio::test(start_paused = true)]
async fn a_cached_replay_is_refused_while_the_layer_shuts_down() {
    let (shop, _) = Shop::watched(|builder| builder.status_resolver(done())).await;
    for _ in 0..3 {
        shop.create("a").await.expect("a call");
    }
    let (sender, call) = shop.spawn_slow().await;
    quiet().await;
    assert!(shop.layer.shutdown(Duration::from_secs(60)).await.unfinished.is_empty());
    sender.send(shop::request("a", None, None).into_inner()).await.expect("it is read");
    drop(sender);
    assert_refused(call.await.expect("no panic"), Code::Unavailable, Reason::ShuttingDown);
}
