//! Replays that the application authorizes, or makes from today's state.

use std::sync::atomic::AtomicBool;

use tonic_idempotency::{
    OwnerId,
    policy::{ProcedureError, RebuildRequest},
};

use crate::harness::add_resource_columns;
use crate::prelude::*;

/// The members who may be given replays, and the questions about them.
#[derive(Clone, Default)]
pub(crate) struct Membership {
    has_ended: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<ReplayRequest>>>,
}

impl Membership {
    fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    /// The resources of all replays that it was asked for.
    pub(crate) fn resources(&self) -> Vec<Option<Resource>> {
        self.asked.lock().expect("no panic").iter().map(|request| request.resource.clone()).collect()
    }

    pub(crate) fn authorizes(self, builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
        builder.authorize_replay(move |request: ReplayRequest| {
            self.asked.lock().expect("no panic").push(request);
            let has_ended = self.has_ended.load(Ordering::SeqCst);
            async move { if has_ended { Err(Status::permission_denied("no member any more")) } else { Ok(()) } }
        })
    }
}

fn assert_denied(status: &Status) {
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "no member any more"), "{status:?}");
}

#[tokio::test]
async fn an_authorizer_is_asked_for_replays_alone() {
    let members = Membership::default();
    let shop = Shop::with(|builder| members.clone().authorizes(builder.store(MemoryStore::new()))).await;
    let first = shop.create("a").await.expect("the first call");
    assert_eq!(members.asked(), 0);
    shop.create("a").await.expect("a replay").assert("processing", true);
    {
        let asked = members.asked.lock().expect("no panic");
        let [ref request] = asked[..] else { panic!("{asked:?}") };
        assert_eq!((Some(*request.caller.owner().as_uuid()), request.procedure.as_str()), (shop.user, CREATE));
        assert_eq!(request.key.to_string(), shop.key.expect("a key").to_string());
        let order = Resource { resource_type: "order".to_owned(), id: order_id(&first).into() };
        assert_eq!(request.resource, Some(order));
    }
    members.end();
    assert_denied(&shop.create("a").await.expect_err("no replay"));
    // A first call is the handler's own business.
    shop.with_new_key().create("a").await.expect("the first call").assert("processing", false);
    assert_eq!(shop.handler.started(), 2);
}

#[tokio::test]
async fn an_authorizer_is_asked_for_replays_from_memory_and_of_final_errors() {
    let (members, store) = (Membership::default(), MemoryStore::new());
    let shop = Shop::with(|builder| members.clone().authorizes(builder.store(store.clone()))).await;
    store.set_status(order_id(&shop.create("a").await.expect("the first call")), OutboxStatus::Completed);
    for asked in 1..=3 {
        shop.create("a").await.expect("a replay").assert("completed", true);
        assert_eq!(members.asked(), asked);
    }
    let other = shop.with_new_key();
    for _ in 0..2 {
        assert_eq!(other.cancel("fail for good").await.expect_err("it fails").code(), Code::FailedPrecondition);
    }
    assert_eq!((members.asked(), shop.handler.started()), (4, 2));
    members.end();
    for status in [shop.create("a").await, other.cancel("fail for good").await] {
        assert_denied(&status.expect_err("no replay"));
    }
}

/// Has two calls at once, of which one waits for the other. Returns the first answer, and what the other gets.
async fn one_waits(
    build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    meanwhile: impl FnOnce(),
) -> (Seen, Result<Seen, Status>) {
    let policies = Policies { on_in_progress: InProgressPolicy::Wait, ..Policies::default() };
    let shop = Shop::in_memory(|builder| build(builder.store(MemoryStore::new()).policies(policies))).await;
    let calls = shop.spawn_all(2, |shop| async move { shop.create("hold").await });
    quiet().await;
    meanwhile();
    shop.handler.open(1);
    let (first, waited): (Vec<_>, Vec<_>) = (calls.join_all().await.into_iter())
        .partition(|answer| answer.as_ref().is_ok_and(|seen| seen.replayed.is_none()));
    assert_eq!((first.len(), waited.len(), shop.handler.started()), (1, 1, 1));
    let first = first.into_iter().flatten().next().expect("a response");
    (first, waited.into_iter().next().expect("an answer"))
}

#[tokio::test(start_paused = true)]
async fn an_authorizer_is_asked_for_calls_that_waited() {
    let members = Membership::default();
    let (first, waited) = one_waits(|builder| members.clone().authorizes(builder), || members.end()).await;
    first.assert("processing", false);
    assert_denied(&waited.expect_err("no replay"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_or_hangs_fails_the_replay_and_nothing_else() {
    let calls = Arc::new(AtomicUsize::new(0));
    let hook = {
        let calls = Arc::clone(&calls);
        move |_: ReplayRequest| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            async move {
                match call {
                    0 => panic!("a bug of the application"),
                    1 => std::future::pending().await,
                    _ => Ok(()),
                }
            }
        }
    };
    let shop = Shop::in_memory(|builder| {
        builder.store(MemoryStore::new()).authorize_replay(hook).replay_hook_timeout(Duration::from_secs(2))
    })
    .await;
    let first = shop.create("a").await.expect("the first call");
    for code in [Code::Internal, Code::Unavailable] {
        assert_eq!(shop.create("a").await.expect_err("no replay").code(), code);
    }
    let replay = shop.create("a").await.expect("a replay");
    replay.assert("processing", true);
    assert_eq!((replay.message, shop.handler.started()), (first.message, 1));
}

/// Rebuilds orders with this name.
fn rebuilds(builder: IdempotencyLayerBuilder, name: &Arc<Mutex<Result<String, Status>>>) -> IdempotencyLayerBuilder {
    let name = Arc::clone(name);
    builder.rebuild(CREATE, move |request: RebuildRequest| {
        let (name, id) = (name.lock().expect("no panic").clone(), request.resource.id.to_string());
        assert_eq!(request.resource.resource_type, "order");
        async move { Ok(CreateOrderReply { order: Some(Order { id, name: name? }), key: request.key.to_string() }) }
    })
}

fn named(name: &str) -> Arc<Mutex<Result<String, Status>>> {
    Arc::new(Mutex::new(Ok(name.to_owned())))
}

#[tokio::test]
async fn a_replay_is_rebuilt_from_todays_state_and_nothing_is_stored_but_the_id() {
    let database = Database::new().await;
    add_resource_columns(&database).await;
    let (store, owner) = (postgres(database.pool(4)), database.owner().await);
    let name = named("a");
    let shop = Shop::with(|builder| rebuilds(builder.store(store), &name)).await;
    let first = shop.create("a").await.expect("the first call");
    shop.create("a").await.expect("a replay").assert_replays("processing", &first);

    *name.lock().expect("no panic") = Ok("renamed since".to_owned());
    let replay = shop.create("a").await.expect("a replay");
    assert_eq!(order_id(&replay), order_id(&first));
    assert!(replay.message.contains("renamed since"), "{replay:?}");

    *name.lock().expect("no panic") = Err(Status::not_found("it is gone"));
    let gone = shop.create("a").await.expect_err("no replay");
    assert_eq!((gone.code(), gone.message()), (Code::NotFound, "it is gone"));

    // The same call may still get its outcome.
    *name.lock().expect("no panic") = Ok("restored".to_owned());
    shop.create("a").await.expect("a replay").assert("processing", true);
    assert_eq!(shop.handler.started(), 1);
    let select = "SELECT pg_column_size(k.*), num_nonnulls(response_metadata, nullif(response_bytes, '')) \
                  FROM tenant.idempotency_keys k";
    let row = owner.query_one(select, &[]).await.expect("one record");
    assert_eq!(row.get::<_, i32>(1), 0);
    let size: i32 = row.get(0);
    assert!(size < 400, "{size} bytes, most of them the key, the hash and the times");
}

#[tokio::test]
async fn a_response_of_any_size_is_rebuilt() {
    let (name, store) = (named(&"a".repeat(8 << 20)), MemoryStore::new());
    let shop = Shop::with(|builder| rebuilds(builder.store(store.clone()), &name).max_request_bytes(16 << 20)).await;
    let mut client = shop.client.clone().max_decoding_message_size(16 << 20);
    let request = || tonic_idempotency_tests::shop::request("a", shop.user, shop.key);
    client.create_order(request()).await.expect("the first call");
    let replay = client.create_order(request()).await.expect("a replay").into_inner();
    assert_eq!(replay.order.expect("an order").name.len(), 8 << 20);
    let mut claim = shop.claim(CREATE, "a");
    claim.reservation.owner = OwnerId::new(shop.user.expect("a user"));
    match store.claim(&claim).await.expect("the store in memory is there") {
        ClaimOutcome::Replay(replay) => assert!(matches!(replay.response, StoredResponse::NotStored), "{replay:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_gets_a_rebuilt_response() {
    let name = named("rebuilt");
    let (_, waited) = one_waits(|builder| rebuilds(builder, &name), || {}).await;
    let waited = waited.expect("a response");
    assert!(waited.message.contains("rebuilt"), "{waited:?}");
    waited.assert("processing", true);
}

#[tokio::test]
async fn a_response_without_an_id_cannot_be_rebuilt() {
    let name = named("a");
    let shop = Shop::with(|builder| rebuilds(builder.store(MemoryStore::new()), &name)).await;
    shop.create("empty").await.expect("the first call");
    let status = shop.create("empty").await.expect_err("no replay");
    assert_rejected(&status, Code::FailedPrecondition, tonic_idempotency::rejection::Reason::NotStored);
}

#[test]
fn hooks_of_procedures_that_have_none_are_refused() {
    let builder = || IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new());
    let nothing = |_: RebuildRequest| async { Ok(CreateOrderReply::default()) };
    let refused = |builder: IdempotencyLayerBuilder| match builder.build() {
        Err(BuildError::Procedure(error)) => error,
        other => panic!("{other:?}"),
    };
    let get = "/shop.v1.Shop/GetOrder".to_owned();
    assert_eq!(
        refused(builder().rebuild("shop.v1.Shop/GetOrder", nothing)),
        ProcedureError::NotOptedIn { procedure: get, setting: "rebuild" }
    );
    let touch = "/shop.v1.Shop/Touch".to_owned();
    assert_eq!(
        refused(builder().rebuild("shop.v1.Shop/Touch", nothing)),
        ProcedureError::NothingToRebuild { procedure: touch }
    );
}
