//! The layer on Redis: its calls, and what it refuses to be built with.

use std::{net::TcpListener, time::Duration};

use tonic::{Code, Response, Status, service::interceptor::InterceptedService, transport::Channel};
use tonic_idempotency::{
    Caller, IdempotencyLayer,
    layer::{BuildError, IdempotencyLayerBuilder},
    policy::{Mode, ProcedureError},
    rejection::Reason,
    status::{OutboxStatus, Resource},
};
use tonic_idempotency_redis::{Durability, RedisStore};
use tonic_idempotency_tests::shop::{
    self, Counting, FILE_DESCRIPTOR_SET,
    proto::{CreateOrderReply, shop_client::ShopClient},
};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::servers::{are_missing, at, cluster, on, on_cluster, store};

/// The path of the procedure that [`Shop::create`] calls.
pub(crate) const CREATE: &str = "/shop.v1.Shop/CreateOrder";

/// A wrapped shop that listens, a user and a key.
pub(crate) struct Shop {
    pub(crate) handler: Counting,
    pub(crate) layer: IdempotencyLayer,
    client: ShopClient<Channel>,
    pub(crate) user: Uuid,
    pub(crate) key: Uuid,
}

impl Shop {
    pub(crate) async fn with(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Self {
        // Replays come from the store, each time.
        let builder = builder().replay_cache_bytes(0);
        let layer = build(builder).build().expect("the layer can be built");
        let handler = Counting::default();
        let wrapped = InterceptedService::new(layer.layer(shop::server(handler.clone())), shop::authenticate);
        let client = shop::client(shop::serve(tonic::service::Routes::new(wrapped)).await).await;
        Self { handler, layer, client, user: Uuid::new_v4(), key: Uuid::new_v4() }
    }

    async fn on(store: RedisStore) -> Self {
        Self::with(|builder| builder.store(store)).await
    }

    pub(crate) async fn create(&self, name: &str) -> Result<Response<CreateOrderReply>, Status> {
        self.client.clone().create_order(shop::request(name, Some(self.user), Some(self.key))).await
    }
}

fn builder() -> IdempotencyLayerBuilder {
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).status_resolver(Done)
}

/// Says that the work behind each order is done.
#[derive(Debug)]
struct Done;

impl tonic_idempotency::status::StatusResolver for Done {
    type Error = std::io::Error;

    async fn status(&self, _: &Caller, _: &Resource) -> Result<Option<OutboxStatus>, Self::Error> {
        Ok(Some(OutboxStatus::Completed))
    }
}

fn is_replayed<T>(response: &Response<T>) -> bool {
    response.metadata().get("idempotent-replayed").is_some()
}

async fn creates_once(store: RedisStore) {
    let shop = Shop::on(store).await;
    let first = shop.create("a").await.expect("the first call");
    let second = shop.create("a").await.expect("a replay");
    assert!(!is_replayed(&first) && is_replayed(&second));
    assert_eq!(second.metadata().get("idempotency-status").expect("a status"), "completed");
    assert_eq!(first.into_inner(), second.into_inner());
    let other = shop.create("b").await.expect_err("another request");
    assert_eq!(Reason::of(&other), Some(Reason::KeyReused), "{other:?}");
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn a_call_is_made_once_on_a_server() {
    if !are_missing() {
        creates_once(store()).await;
    }
}

#[tokio::test]
async fn a_call_is_made_once_in_a_cluster() {
    if !are_missing() {
        creates_once(on_cluster(cluster()).durability(Durability::replicas(1))).await;
    }
}

#[tokio::test]
async fn a_call_that_failed_frees_its_key() {
    if are_missing() {
        return;
    }
    let shop = Shop::on(store()).await;
    let error = shop.create("fail at first").await.expect_err("the first call fails");
    assert_eq!(error.code(), Code::NotFound);
    assert!(!is_replayed(&shop.create("fail at first").await.expect("the second call")));
}

#[tokio::test]
async fn a_call_is_refused_while_the_server_is_away() {
    if are_missing() {
        return;
    }
    let server = scratch_redis::Server::start(&[]).expect("a server");
    let shop = Shop::on(on(&server).timeout(Duration::from_millis(300))).await;
    server.kill();
    let error = shop.create("a").await.expect_err("no store");
    assert_eq!((error.code(), Reason::of(&error)), (Code::Unavailable, Some(Reason::StoreUnavailable)), "{error:?}");
    assert_eq!(shop.handler.started(), 0);
}

#[tokio::test]
async fn a_call_runs_unprotected_while_the_server_is_away_if_that_is_the_policy() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address");
    let store = at(&format!("redis://{taken}/")).timeout(Duration::from_millis(300));
    let shop = Shop::with(|builder| builder.store(store).degrade_gracefully()).await;
    shop.create("a").await.expect("an unprotected call");
    assert_eq!(shop.handler.finished(), 1);
}

/// Too few replicas are no reason to run unprotected.
#[tokio::test]
async fn a_call_is_refused_without_the_replicas_whatever_the_policy() {
    if are_missing() {
        return;
    }
    let durability = Durability::replicas(1).within(Duration::from_millis(50));
    let shop = Shop::with(|builder| builder.store(store().durability(durability)).degrade_gracefully()).await;
    let error = shop.create("a").await.expect_err("no replica");
    assert_eq!((error.code(), Reason::of(&error)), (Code::Unavailable, Some(Reason::Overloaded)), "{error:?}");
    assert_eq!(shop.handler.started(), 0);
}

/// No transaction spans Redis and the handler's database: a layer that would need one is not built.
#[test]
fn a_transactional_procedure_is_refused() {
    let store = at("redis://127.0.0.1:1/");
    let transactional = builder().adjust_procedures(|procedure| match procedure.path() {
        CREATE => procedure.mode(Mode::Transactional),
        _ => procedure,
    });
    let error = transactional.store(store).build().expect_err("no transactions");
    let BuildError::Procedure(ProcedureError::NoTransactions { procedure }) = &error else { panic!("{error:?}") };
    assert_eq!(procedure, CREATE);
    assert!(error.to_string().contains("reserved"), "{error}");
}

/// Redis does not know the status of an order: a layer that would have to ask it is not built.
#[test]
fn a_status_that_nobody_reports_is_refused() {
    let store = at("redis://127.0.0.1:1/");
    let error = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).build().expect_err("no status");
    assert!(matches!(error, BuildError::Procedure(ProcedureError::NoStatus { .. })), "{error:?}");
    assert!(error.to_string().contains("status_resolver"), "{error}");
}
