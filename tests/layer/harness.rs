use tonic::{
    Response, Status,
    service::{Routes, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_idempotency::{IdempotencyLayer, IdempotencyLayerBuilder, MemoryStore, Store};
use tonic_idempotency_tests::shop::{self, Counting, FILE_DESCRIPTOR_SET, proto::shop_client::ShopClient};
use tower_layer::Layer as _;
use uuid::Uuid;

/// A wrapped shop that listens, a client, a user and a key.
pub(crate) struct Shop {
    pub(crate) handler: Counting,
    pub(crate) layer: IdempotencyLayer,
    pub(crate) client: ShopClient<Channel>,
    pub(crate) user: Option<Uuid>,
    pub(crate) key: Option<Uuid>,
}

impl Shop {
    /// On a store of its own in memory.
    pub(crate) async fn new() -> Self {
        Self::on(MemoryStore::new()).await
    }

    pub(crate) async fn on(store: impl Store) -> Self {
        Self::with(|builder| builder.store(store)).await
    }

    pub(crate) async fn with(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Self {
        let layer = build(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)).build().expect("the layer can be built");
        let handler = Counting::default();
        let wrapped = layer.layer(shop::server(handler.clone()));
        let address = shop::serve(Routes::new(InterceptedService::new(wrapped, shop::authenticate))).await;
        let client = shop::client(address).await;
        Self { handler, layer, client, user: Some(Uuid::new_v4()), key: Some(Uuid::new_v4()) }
    }

    pub(crate) async fn create(&self, name: &str) -> Result<Seen, Status> {
        let request = shop::request(name, self.user, self.key);
        self.client.clone().create_order(request).await.map(Seen::of)
    }

    pub(crate) async fn pay(&self, name: &str) -> Result<Seen, Status> {
        self.client.clone().pay(shop::request(name, self.user, self.key)).await.map(Seen::of)
    }

    pub(crate) async fn touch(&self, name: &str) -> Result<Seen, Status> {
        self.client.clone().touch(shop::request(name, self.user, self.key)).await.map(Seen::of)
    }

    pub(crate) fn with_key(&self, key: Option<Uuid>) -> Self {
        let Self { handler, layer, client, user, .. } = self;
        Self { handler: handler.clone(), layer: layer.clone(), client: client.clone(), user: *user, key }
    }
}

/// What a client sees of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) message: String,
    pub(crate) status: Option<String>,
    pub(crate) replayed: Option<String>,
}

impl Seen {
    pub(crate) fn of<T: std::fmt::Debug>(response: Response<T>) -> Self {
        let header = |name| Some(response.metadata().get(name)?.to_str().expect("text").to_owned());
        let (status, replayed) = (header("idempotency-status"), header("idempotent-replayed"));
        Self { message: format!("{:?}", response.into_inner()), status, replayed }
    }

    pub(crate) fn assert(&self, status: &str, replayed: bool) {
        assert_eq!(self.status.as_deref(), Some(status), "{self:?}");
        assert_eq!(self.replayed.as_deref(), replayed.then_some("true"), "{self:?}");
    }
}
