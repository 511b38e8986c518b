//! The header `idempotency-status` on replays.

use tonic_idempotency::{status::StatusResolver, store::StatusFromStore};

use crate::prelude::*;
use crate::replay_hooks::Membership;

#[tokio::test]
async fn follows_the_outbox() {
    let store = MemoryStore::new();
    // Without the replay cache each replay looks the status up: a failed job may be started again.
    let shop = Shop::with(|builder| builder.store(store.clone()).replay_cache_bytes(0)).await;
    let order = order_id(&shop.create("a").await.expect("the first call"));
    shop.create("a").await.expect("a replay").assert("processing", true);
    for (status, header) in [
        (OutboxStatus::Pending, "processing"),
        (OutboxStatus::Retrying, "processing"),
        (OutboxStatus::Failed, "failed"),
        (OutboxStatus::Completed, "completed"),
    ] {
        store.set_status(order, status);
        shop.create("a").await.expect("a replay").assert(header, true);
    }
}

/// A status resolver, by what it says of every order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    Fails,
    Never,
    Panics,
    PanicsAtOnce,
    Status(OutboxStatus),
}

impl StatusResolver for Says {
    type Error = &'static str;

    fn status(
        &self,
        _: &Caller,
        resource: &Resource,
    ) -> impl Future<Output = Result<Option<OutboxStatus>, &'static str>> + Send {
        assert_eq!(resource.resource_type, "order");
        let says = *self;
        assert!(!matches!(says, Self::PanicsAtOnce), "a bug of the resolver");
        async move {
            tokio::task::yield_now().await;
            match says {
                Self::Fails => Err("no idea"),
                Self::Never => std::future::pending().await,
                Self::Panics | Self::PanicsAtOnce => panic!("a bug of the resolver"),
                Self::Status(status) => Ok(Some(status)),
            }
        }
    }
}

#[tokio::test]
async fn comes_from_the_status_resolver_if_one_is_set() {
    let store = MemoryStore::new();
    let shop =
        Shop::with(|builder| builder.store(store.clone()).status_resolver(Says::Status(OutboxStatus::Failed))).await;
    let order = order_id(&shop.create("a").await.expect("the first call"));
    // The store's status is not used.
    store.set_status(order, OutboxStatus::Completed);
    shop.create("a").await.expect("a replay").assert("failed", true);
}

#[tokio::test(start_paused = true)]
async fn is_processing_if_the_resolver_does_not_answer_in_its_time_or_fails() {
    for (says, expected) in [(Says::Fails, 0), (Says::Never, 250), (Says::Panics, 0), (Says::PanicsAtOnce, 0)] {
        let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).status_resolver(says)).await;
        let first = shop.create("a").await.expect("the first call");
        let began = Instant::now();
        shop.create("a").await.expect("a replay").assert_replays("processing", &first);
        let took = began.elapsed().as_millis();
        assert!((expected..expected + 50).contains(&took), "{says:?}: {took} ms");
        assert_eq!(shop.handler.finished(), 1, "{says:?}");
    }
}

#[tokio::test]
async fn comes_from_another_store() {
    let elsewhere = MemoryStore::new();
    let shop =
        Shop::with(|builder| builder.store(MemoryStore::new()).status_resolver(StatusFromStore(elsewhere.clone())))
            .await;
    let order = order_id(&shop.create("a").await.expect("the first call"));
    elsewhere.set_status(order, OutboxStatus::Completed);
    shop.create("a").await.expect("a replay").assert("completed", true);
}

/// Its id is recorded nevertheless.
#[tokio::test]
async fn is_completed_from_the_first_response_on_if_the_resource_is_not_tracked() {
    let store = MemoryStore::new();
    let untracked = Procedure::builder(CREATE).creates_untracked("order", "order.id");
    let members = Membership::default();
    let shop = Shop::with(|builder| {
        let builder = builder.store(store.clone()).status_resolver(Says::Never).procedure(untracked);
        members.clone().authorizes(builder)
    })
    .await;
    let first = shop.create("a").await.expect("the first call");
    first.assert("completed", false);
    store.set_status(order_id(&first), OutboxStatus::Failed);
    shop.create("a").await.expect("a replay").assert("completed", true);
    let order = Resource { resource_type: "order".to_owned(), id: order_id(&first).into() };
    assert_eq!(members.resources(), [Some(order)]);
}

#[tokio::test]
async fn is_not_looked_up_if_no_tracked_resource_is_created() {
    let shop = Shop::with(|builder| builder.store(MemoryStore::new()).status_resolver(Says::Never)).await;
    shop.touch("a").await.expect("the first call").assert("completed", false);
    shop.touch("a").await.expect("a replay").assert("completed", true);
}
