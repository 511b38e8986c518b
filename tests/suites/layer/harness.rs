//! The wrapped shop, its client, and checks of its responses.

use std::fmt::Debug;

use deadpool_postgres::Pool;
use http::Request;
use protobuf_canonical::Canonical;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, service::Routes};
use tonic_idempotency::{
    KeyId, OwnerId,
    layer::CompressionEncoding,
    migrations,
    store::{CallSession, Claim, ResourceType, Schema},
};
use tower::Service;

use crate::prelude::*;

/// Makes two tests of a check of a store: in memory, and on PostgreSQL.
macro_rules! on_both_stores {
    ($check:ident $($runtime:tt)*) => {
        mod $check {
            use crate::prelude::*;

            #[tokio::test($($runtime)*)]
            async fn in_memory() {
                super::$check(MemoryStore::new()).await;
            }

            #[tokio::test($($runtime)*)]
            async fn on_postgres() {
                let database = Database::new().await;
                super::$check(postgres(database.pool(8))).await;
            }
        }
    };
}
pub(crate) use on_both_stores;

/// The path of the procedure that [`Shop::create`] calls.
pub(crate) const CREATE: &str = "/shop.v1.Shop/CreateOrder";

/// A wrapped shop that listens, a client, a user and a key.
pub(crate) struct Shop {
    pub(crate) handler: Counting,
    pub(crate) layer: IdempotencyLayer,
    pub(crate) channel: Channel,
    pub(crate) client: ShopClient<Channel>,
    pub(crate) user: Option<Uuid>,
    pub(crate) key: Option<Uuid>,
    /// How long the client waits for a response.
    pub(crate) patience: Duration,
}

/// Longer than any call takes in real time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than any call takes in paused time.
const PAUSED_PATIENCE: Duration = Duration::from_secs(2 * 3600);

impl Shop {
    /// A shop on a new store in memory.
    pub(crate) async fn new() -> Self {
        Self::on(MemoryStore::new()).await
    }

    pub(crate) async fn on(store: impl Store) -> Self {
        Self::with(|builder| builder.store(store)).await
    }

    pub(crate) async fn with(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Self {
        // As the server itself does.
        Self::around(|builder| build(builder.accept_compressed(CompressionEncoding::Gzip)), shop::server).await
    }

    /// A shop over a pipe in memory, for tests that pause time: paused time advances only while all tasks are idle.
    pub(crate) async fn in_memory(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Self {
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).accept_compressed(CompressionEncoding::Gzip);
        let (layer, handler) = (build(builder).build().expect("the layer can be built"), Counting::default());
        let wrapped = InterceptedService::new(layer.layer(shop::server(handler.clone())), shop::authenticate);
        let channel = shop::serve_in_memory(Routes::new(wrapped)).await;
        Self::new_client(handler, layer, channel, PAUSED_PATIENCE)
    }

    /// The same on this store.
    pub(crate) async fn paused(store: impl Store) -> Self {
        Self::in_memory(|builder| builder.store(store)).await
    }

    /// The same on a store that is watched.
    pub(crate) async fn watched(
        build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    ) -> (Self, Watched) {
        let store = Watched::default();
        (Self::in_memory(|builder| build(builder.store(store.clone()))).await, store)
    }

    /// Another process, called by the same user with the same key.
    pub(crate) async fn beside(&self, build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Self {
        Self { user: self.user, key: self.key, ..Self::in_memory(build).await }
    }

    /// A shop around the server that `server` makes.
    pub(crate) async fn around<S>(
        build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
        server: impl FnOnce(Counting) -> S,
    ) -> Self
    where
        S: Service<Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let layer = build(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)).build().expect("the layer can be built");
        let handler = Counting::default();
        let wrapped = InterceptedService::new(layer.layer(server(handler.clone())), shop::authenticate);
        let channel = shop::channel(shop::serve(Routes::new(wrapped)).await).await;
        Self::new_client(handler, layer, channel, PATIENCE)
    }

    fn new_client(handler: Counting, layer: IdempotencyLayer, channel: Channel, patience: Duration) -> Self {
        let client = ShopClient::new(channel.clone());
        Self { handler, layer, channel, client, user: Some(Uuid::new_v4()), key: Some(Uuid::new_v4()), patience }
    }

    pub(crate) async fn create(&self, name: &str) -> Result<Seen, Status> {
        let mut client = self.client.clone();
        self.seen(client.create_order(shop::request(name, self.user, self.key))).await
    }

    pub(crate) async fn pay(&self, name: &str) -> Result<Seen, Status> {
        let mut client = self.client.clone();
        self.seen(client.pay(shop::request(name, self.user, self.key))).await
    }

    pub(crate) async fn touch(&self, name: &str) -> Result<Seen, Status> {
        let mut client = self.client.clone();
        self.seen(client.touch(shop::request(name, self.user, self.key))).await
    }

    pub(crate) async fn cancel(&self, name: &str) -> Result<Seen, Status> {
        let mut client = self.client.clone();
        self.seen(client.cancel(shop::request(name, self.user, self.key))).await
    }

    async fn seen<T: std::fmt::Debug>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<Seen, Status> {
        match tokio::time::timeout(self.patience, call).await {
            Ok(response) => response.map(Seen::of),
            Err(elapsed) => Err(Status::unknown(format!("the test's client got no response: {elapsed}"))),
        }
    }

    /// Spawns [`create`](Self::create) as a task; aborting the task disconnects the client.
    pub(crate) fn spawn_create(&self, name: &'static str) -> JoinHandle<Result<Seen, Status>> {
        let shop = self.with_key(self.key);
        tokio::spawn(async move { shop.create(name).await })
    }

    /// The same; when this returns, the handler runs, or the call waits.
    pub(crate) async fn begin_create(&self, name: &'static str) -> JoinHandle<Result<Seen, Status>> {
        let call = self.spawn_create(name);
        quiet().await;
        call
    }

    /// The same in real time; when this returns, the handler runs.
    pub(crate) async fn run_create(&self, name: &'static str) -> JoinHandle<Result<Seen, Status>> {
        let (before, call) = (self.handler.started(), self.spawn_create(name));
        until("the handler runs", async || self.handler.started() > before).await;
        call
    }

    /// Makes calls of the same user with the same key at once.
    pub(crate) fn spawn_all<F>(&self, calls: usize, call: impl Fn(Self) -> F) -> JoinSet<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        (0..calls).map(|_| call(self.with_key(self.key))).collect()
    }

    /// Spawns [`create`](Self::create) as a task whose message is sent when the test puts it into the channel.
    pub(crate) async fn spawn_slow(&self) -> (mpsc::Sender<CreateOrderRequest>, JoinHandle<Result<Seen, Status>>) {
        let (sender, receiver) = mpsc::channel(1);
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.expect("the server listens");
        let request = shop::with(ReceiverStream::new(receiver), self.user, self.key);
        let path = http::uri::PathAndQuery::from_static(CREATE);
        let codec = tonic_prost::ProstCodec::<CreateOrderRequest, CreateOrderReply>::default();
        let patience = self.patience;
        let call = tokio::spawn(async move {
            let call = tokio::time::timeout(patience, client.client_streaming(request, path, codec));
            call.await.map_err(|_| Status::unknown("no answer"))?.map(Seen::of)
        });
        (sender, call)
    }

    pub(crate) fn with_new_key(&self) -> Self {
        self.with_key(Some(Uuid::new_v4()))
    }

    pub(crate) fn by_another_user(&self) -> Self {
        Self { user: Some(Uuid::new_v4()), ..self.with_new_key() }
    }

    pub(crate) fn with_key(&self, key: Option<Uuid>) -> Self {
        let Self { handler, layer, channel, client, user, patience, .. } = self;
        let (handler, layer, channel, client) = (handler.clone(), layer.clone(), channel.clone(), client.clone());
        Self { handler, layer, channel, client, user: *user, key, patience: *patience }
    }

    /// Reserves the key in a store like a server that dies in the middle of a call: the lease has ended, and the
    /// outcome is unknown.
    pub(crate) async fn die(&self, store: &impl Store, procedure: &str, name: &str) {
        let claim = self.claim(procedure, name);
        store.claim(&claim).await.expect("the store answers");
    }

    /// The claim that a server makes for this call, but with a lease that ends as soon as it begins.
    pub(crate) fn claim(&self, procedure: &str, name: &str) -> Claim {
        let message = prost::Message::encode_to_vec(shop::request(name, self.user, self.key).get_ref());
        let pool = prost_reflect::DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
        let canonical = Canonical::new(&pool.get_message_by_name("shop.v1.CreateOrderRequest").expect("the message"));
        Claim {
            reservation: Reservation::new(
                OwnerId::new(self.user.expect("a user")),
                KeyId::new(self.key.expect("a key")),
            ),
            session: CallSession::default(),
            procedure: procedure.to_owned(),
            request: canonical.hashes(&message).expect("a message"),
            lease: Duration::ZERO,
            retention: Duration::from_secs(3600),
            on_lease_ended: LeasePolicy::Refuse,
            on_foreign_reservation: ForeignPolicy::InProgress,
            effect: EffectPolicy::Anywhere,
            resource_type: None,
        }
    }
}

/// The parts of a response that a client sees.
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

    #[track_caller]
    pub(crate) fn assert(&self, status: &str, replayed: bool) {
        assert_eq!(self.status.as_deref(), Some(status), "{self:?}");
        assert_eq!(self.replayed.as_deref(), replayed.then_some("true"), "{self:?}");
    }

    /// Asserts that this is a replay of the first response.
    #[track_caller]
    pub(crate) fn assert_replays(&self, status: &str, first: &Self) {
        self.assert(status, true);
        assert_eq!(self.message, first.message);
    }
}

/// A store of the shop, with a timeout that is long enough for a busy machine.
pub(crate) fn postgres(pool: Pool) -> PostgresStore {
    PostgresStore::new(pool, resource_types()).timeout(Duration::from_secs(30))
}

/// Gives the table columns for the resource types, without foreign keys: the tests' handlers write no orders.
pub(crate) async fn add_resource_columns(database: &Database) {
    let mut owner = database.owner().await;
    owner.batch_execute("CREATE SCHEMA shop; CREATE TABLE shop.orders (id uuid PRIMARY KEY)").await.expect("a table");
    migrations::register(&mut owner, &Schema::default(), &resource_types()).await.expect("the registration");
    for name in ["order", "payment"] {
        let drop = format!("ALTER TABLE tenant.idempotency_keys DROP CONSTRAINT idempotency_keys_fk_{name}");
        owner.batch_execute(&drop).await.expect("the foreign key is dropped");
    }
}

/// The resource types of the tests' service. The database has no columns for them and needs none.
pub(crate) fn resource_types() -> ResourceTypes {
    ResourceTypes::new(["order", "payment"].map(|name| resource_type(name).tracked()))
}

/// A type whose status is not tracked.
pub(crate) fn resource_type(name: &str) -> ResourceType {
    ResourceType::new(name, format!("{name}_id"), "shop.orders")
}

/// The id of the order in a response.
pub(crate) fn order_id(seen: &Seen) -> Uuid {
    let (_, rest) = seen.message.split_once("id: \"").expect("an order");
    rest[..36].parse().expect("a UUID")
}

/// Accepts requests in any compression.
pub(crate) fn accept_all(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    let all = [CompressionEncoding::Gzip, CompressionEncoding::Zstd, CompressionEncoding::Deflate];
    all.into_iter().fold(builder, IdempotencyLayerBuilder::accept_compressed)
}

/// Asserts that the layer refused a call, and returns its status.
#[track_caller]
pub(crate) fn assert_refused<T: Debug>(outcome: Result<T, Status>, code: Code, reason: Reason) -> Status {
    let status = outcome.expect_err("a refusal");
    assert_rejected(&status, code, reason);
    status
}

#[track_caller]
pub(crate) fn assert_rejected(status: &Status, code: Code, reason: Reason) {
    assert_eq!((status.code(), Reason::of(status)), (code, Some(reason)), "{status:?}");
    assert!(status.message().len() > 20, "it says what to do: {status:?}");
}

/// The delay after which the client may retry.
pub(crate) fn retry_delay(status: &Status) -> Duration {
    status.get_details_retry_info().expect("a RetryInfo").retry_delay.expect("a delay")
}

/// Waits until all tasks are idle, and those that wake at the same time, too: without the yields a question to a store, which comes
/// at a random time, may come between two lines of a test. Time has to be paused; it advances by a millisecond.
pub(crate) async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
