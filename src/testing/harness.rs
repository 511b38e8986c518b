//! A service, the layer and a store in one process, which a test can disturb.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request as HttpRequest;
use tonic::{IntoRequest, Request, Response, Status, body::Body, codegen::StdError, metadata::AsciiMetadataValue};
use tower_layer::Layer as _;
use tower_service::Service;
use uuid::Uuid;

use super::{
    AtOnce, Called, HarnessStore, InProcess, Record, lock,
    probe::{HarnessCall, Probe},
    process::Process,
    server::{Fate, RunningProcess, Server},
    store::RememberingStore,
};
use crate::{
    Caller, IdempotencyKey, IdempotencyLayer, UserId,
    layer::{BuildError, Descriptors},
    rejection::Reason,
    store::{MemoryStore, Store},
};

/// A service behind an [`IdempotencyLayer`], in this process, for tests. See the [module](super) for an example.
///
/// A call is a call of tonic's own client, through the layer, to the service, in one process: there is no socket, and no
/// authentication. The layer finds the harness's [caller](Self::as_caller) in the request's extensions, where an
/// authentication interceptor would put it. The handler runs as it does on a server: the layer spawns it on the test's
/// runtime.
///
/// Clones share the service, the layer, the store and its clock.
///
/// # What goes wrong
///
/// | method | what happens |
/// |---|---|
/// | [`lose_requests`](Self::lose_requests) | the next calls do not arrive |
/// | [`lose_answers`](Self::lose_answers) | the next calls run, and their answers do not come |
/// | [`refuse`](Self::refuse) | the next call is refused, for this reason |
/// | [`crash_before_record`](Self::crash_before_record) | the server's process dies when the handler of the next call has ended, and a new one follows |
/// | [`restart`](Self::restart) | the server's process dies now, and a new one follows |
/// | [`set_store_available`](Self::set_store_available) | the layer cannot reach the store |
///
/// The next calls are those that reach the [channel](Self::channel) next, whatever client makes them. One thing happens to each, in the
/// order in which the test has asked for them. The question of a client whether the layer protects a procedure is always answered, and is
/// no call.
pub struct Harness<S = MemoryStore> {
    pub(super) server: Arc<Server>,
    store: Arc<RememberingStore<S>>,
    pub(super) runs: Arc<AtomicUsize>,
    pub(super) caller: Option<Caller>,
}

impl Harness<MemoryStore> {
    /// Wraps a generated server, or any service that answers gRPC, such as `tonic::service::Routes` or a service of
    /// `connectrpc`. Protects the procedures that the descriptors opt in, and keeps records in a new [`MemoryStore`] that
    /// [accepts transactional procedures](MemoryStore::accept_transactions).
    ///
    /// # Panics
    ///
    /// The layer cannot be built: the panic says why. A layer with settings of its own is for
    /// [`with_layer`](Self::with_layer).
    #[track_caller]
    pub fn new<T, B>(descriptors: impl Into<Descriptors>, service: T) -> Self
    where
        T: Service<HttpRequest<Body>, Response = http::Response<B>> + Clone + Send + 'static,
        T::Error: Into<StdError> + Send + 'static,
        T::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError>,
    {
        let pool = match descriptors.into().pool() {
            Ok(pool) => pool,
            Err(error) => panic!("{}", cannot_be_built(&BuildError::from(error))),
        };
        let build = move |store| IdempotencyLayer::builder(pool.clone()).store(store).build();
        Self::with_layer(MemoryStore::new().accept_transactions(), build, service)
    }

    /// Advances the clock of the store, which decides on leases and retentions, and that of the layer, which decides whether a key
    /// has expired (`ExpiredKeyPolicy`). No timer depends on these clocks, and no other clock changes: the layer renews leases, and waits,
    /// by tokio's clock, which a test can [pause](https://docs.rs/tokio/latest/tokio/time/fn.pause.html).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tonic_idempotency::testing::Harness;
    /// # async fn example(harness: Harness) {
    /// harness.advance(Duration::from_secs(61)); // the lease of a call that still runs ends, by default
    /// harness.advance(Duration::from_secs(24 * 3600)); // every record expires, by default
    /// # }
    /// ```
    pub fn advance(&self, by: Duration) {
        self.store().advance(by);
        self.server.advance(by);
    }
}

impl<S: Store> Harness<S> {
    /// Wraps a service in the layer that `layer` builds on this store: usually the function with which the application builds
    /// its own. Give each test a store of its own: a [`MemoryStore`], or a `PostgresStore` on a database of the test. `layer` is called
    /// again for each [new process](Self::restart).
    ///
    /// ```
    /// # use tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
    /// use std::time::Duration;
    /// use tonic_idempotency::{
    ///     IdempotencyLayer,
    ///     layer::BuildError,
    ///     policy::Policies,
    ///     store::{MemoryStore, Store},
    ///     testing::Harness,
    /// };
    ///
    /// fn idempotency(store: impl Store) -> Result<IdempotencyLayer, BuildError> {
    ///     let policies = Policies { retention: Duration::from_secs(3600), ..Policies::default() };
    ///     # return IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).allow_no_procedures().store(store).policies(policies).build();
    ///     IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).policies(policies).build()
    /// }
    ///
    /// # let orders = tonic::service::Routes::default();
    /// let harness = Harness::with_layer(MemoryStore::new().accept_transactions(), idempotency, orders);
    /// # drop(harness);
    /// ```
    ///
    /// # Panics
    ///
    /// `layer` fails: the panic has its error.
    #[track_caller]
    pub fn with_layer<T, B, E: fmt::Display>(
        store: S,
        layer: impl Fn(HarnessStore<S>) -> Result<IdempotencyLayer, E> + Send + Sync + 'static,
        service: T,
    ) -> Self
    where
        T: Service<HttpRequest<Body>, Response = http::Response<B>> + Clone + Send + 'static,
        T::Error: Into<StdError> + Send + 'static,
        T::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError>,
    {
        let (store, runs) = (Arc::new(RememberingStore::new(store)), Arc::<AtomicUsize>::default());
        let (kept, counted, service) = (Arc::clone(&store), Arc::clone(&runs), Mutex::new(service));
        let start = move |process: Process| {
            let layer = layer(HarnessStore::new(&kept, &process)).map_err(|error| cannot_be_built(&error))?;
            let service = lock(&service).clone();
            let service = layer.layer(Probe::new(service, process.clone(), Arc::clone(&counted)));
            Ok(RunningProcess::new(process, layer, service))
        };
        let server = match Server::new(start) {
            Ok(server) => Arc::new(server),
            Err(error) => panic!("{error}"),
        };
        let caller = Some(Caller::new(UserId::new(Uuid::new_v4())));
        Self { server, store, runs, caller }
    }

    /// Returns a harness for the same service whose calls come from this caller: a [`UserId`], or a user
    /// [in a scope](Caller::in_scope). Defaults to a random user.
    #[must_use]
    pub fn as_caller(&self, caller: impl Into<Caller>) -> Self {
        Self { caller: Some(caller.into()), ..self.clone() }
    }

    /// Returns a harness for the same service that puts no caller into its calls: they are not authenticated, unless a layer
    /// around the [channel](Self::channel) does that.
    #[must_use]
    pub fn without_caller(&self) -> Self {
        Self { caller: None, ..self.clone() }
    }

    /// Returns the caller of the calls, if there is one.
    pub fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns the channel for a generated client: `OrderServiceClient::new(harness.channel())`.
    ///
    /// It is a tower service. A test can put layers around it, such as its authentication,
    /// `ConnectLayer` or the layer of its client, and send requests of its own. A request that is not made by [`call`](Self::call), and has no
    /// caller, comes from the harness's caller.
    pub fn channel(&self) -> InProcess {
        InProcess::new(Arc::clone(&self.server), self.caller.clone())
    }

    /// Makes a call with a key. `send` gets the request with the key and the caller, and sends it with a client on the
    /// harness's [channel](Self::channel). The request may have metadata and extensions of its own.
    ///
    /// ```no_run
    /// # use tonic::{IntoRequest, Response, Status};
    /// # struct Order; #[derive(Clone)] struct Lamp;
    /// # struct OrderServiceClient;
    /// # impl OrderServiceClient {
    /// #     async fn create_order(&mut self, _: impl IntoRequest<Lamp>) -> Result<Response<Order>, Status> { Ok(Response::new(Order)) }
    /// # }
    /// # async fn example(harness: tonic_idempotency::testing::Harness, mut orders: OrderServiceClient, lamp: Lamp) {
    /// let key = uuid::Uuid::new_v4();
    /// harness.call(key, lamp, |request| orders.create_order(request)).await.executed_once();
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client has disconnected. The call goes on.
    #[must_use = "assert how the call ended"]
    pub async fn call<T, R, A>(
        &self,
        key: impl Into<IdempotencyKey>,
        request: impl IntoRequest<T>,
        send: impl FnOnce(Request<T>) -> A,
    ) -> Called<R>
    where
        A: Future<Output = Result<Response<R>, Status>>,
    {
        let key = key.into();
        let mut request = request.into_request();
        request.metadata_mut().insert(IdempotencyKey::HEADER, header(&key));
        self.sent(true, request, send).await
    }

    /// Makes a call without a key. Otherwise as [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client has disconnected.
    #[must_use = "assert how the call ended"]
    pub async fn call_without_key<T, R, A>(
        &self,
        request: impl IntoRequest<T>,
        send: impl FnOnce(Request<T>) -> A,
    ) -> Called<R>
    where
        A: Future<Output = Result<Response<R>, Status>>,
    {
        self.sent(false, request.into_request(), send).await
    }

    async fn sent<T, R, A>(
        &self,
        has_key: bool,
        mut request: Request<T>,
        send: impl FnOnce(Request<T>) -> A,
    ) -> Called<R>
    where
        A: Future<Output = Result<Response<R>, Status>>,
    {
        let attempt = HarnessCall::default();
        request.extensions_mut().insert(attempt.clone());
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        Called::new(send(request).await, has_key, &attempt, &self.layer())
    }

    /// Makes this many calls with one key at once. Otherwise as [`call`](Self::call).
    ///
    /// ```no_run
    /// # use tonic::{IntoRequest, Response, Status};
    /// # struct Order; #[derive(Clone)] struct Lamp;
    /// # #[derive(Clone)] struct OrderServiceClient;
    /// # impl OrderServiceClient {
    /// #     async fn create_order(&mut self, _: impl IntoRequest<Lamp>) -> Result<Response<Order>, Status> { Ok(Response::new(Order)) }
    /// # }
    /// # async fn example(harness: tonic_idempotency::testing::Harness, orders: OrderServiceClient, lamp: Lamp) {
    /// let send = async |request| orders.clone().create_order(request).await;
    /// harness.at_once(20, uuid::Uuid::new_v4(), lamp, send).await.executed_once();
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As [`call`](Self::call), for each of them.
    pub async fn at_once<T, R>(
        &self,
        calls: usize,
        key: impl Into<IdempotencyKey>,
        request: impl IntoRequest<T> + Clone,
        send: impl AsyncFn(Request<T>) -> Result<Response<R>, Status>,
    ) -> AtOnce<R> {
        let (key, send) = (key.into(), &send);
        let calls = (0..calls).map(|_| self.call(key.clone(), request.clone(), move |request| send(request)));
        AtOnce::new(join_all(calls).await)
    }

    /// Loses this many next calls on their way: they fail with `UNAVAILABLE`, as if there were no connection. They are
    /// [`unanswered`](Called::unanswered), and their handlers do not run.
    pub fn lose_requests(&self, calls: usize) {
        (0..calls).for_each(|_| self.server.decide(Fate::RequestLost));
    }

    /// Loses the answers of this many next calls: each runs, is recorded, and fails with `UNAVAILABLE`, as if the connection had broken. It is
    /// [`unanswered`](Called::unanswered).
    ///
    /// ```no_run
    /// # async fn example(harness: tonic_idempotency::testing::Harness) {
    /// # use tonic::{Request, Response, Status};
    /// # let create_order = async |_: Request<()>| -> Result<Response<()>, Status> { Ok(Response::new(())) };
    /// # let (key, lamp) = (uuid::Uuid::new_v4(), || Request::new(()));
    /// harness.lose_answers(1);
    /// harness.call(key, lamp(), create_order).await.unanswered();
    /// harness.call(key, lamp(), create_order).await.replayed();
    /// # }
    /// ```
    pub fn lose_answers(&self, calls: usize) {
        (0..calls).for_each(|_| self.server.decide(Fate::AnswerLost));
    }

    /// Refuses the next call for this reason, as the layer does, before its handler runs. A call that is refused with
    /// [`Reason::InProgress`] may be tried again at once.
    pub fn refuse(&self, reason: Reason) {
        self.server.decide(Fate::Rejected(reason));
    }

    /// Lets the server's process die when the handler of the next call has ended, before the outcome is recorded, and starts a new one: see
    /// [`restart`](Self::restart). Does nothing if that call does not run its handler.
    ///
    /// Nothing is left of a transactional call, so that a retry runs. A reserved call leaves its reservation: a retry is in progress until
    /// the lease [ends](Self::advance), and then `on_lease_ended` decides.
    pub fn crash_before_record(&self) {
        self.server.decide(Fate::Crash);
    }

    /// Lets the server's process die where it stands, and starts a new one, whose layer is built anew on the same store.
    ///
    /// | is lost | stays |
    /// |---|---|
    /// | the layer, with its memory | the store and its clock |
    /// | handlers that run, at their next `.await`, and their transactions | reservations, whose leases are not renewed any more |
    /// | the answers of calls that run: they are [`unanswered`](Called::unanswered) | the service, so that a fake repository in it stands for a database |
    ///
    /// Tasks that a handler has spawned go on. Tasks of the old [`layer`](Self::layer), such as a recovery, do not reach the store any
    /// more.
    ///
    /// # Panics
    ///
    /// The layer cannot be built again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the calls that run may never end.
    pub async fn restart(&self) {
        self.server.restart().await;
    }

    /// Sets whether the layer can reach its store. If not, each operation fails as if there were no connection, and a transaction that is
    /// open is not committed; the layer still gives the replays that it has in memory. [`record`](Self::record) and
    /// [`store`](Self::store) reach the store in any case. Defaults to `true`.
    pub fn set_store_available(&self, available: bool) {
        self.store.set_available(available);
    }

    /// Returns how often the handlers of the service and of [operations](Self::run) have run, in calls with and without a key, of whatever procedure and
    /// caller.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Returns the record that the store keeps of this key of the harness's caller, as the next call with the key would find
    /// it. [`Record::Absent`] if no call of this harness has claimed the key.
    ///
    /// It looks as a call would, and may hold the key for a moment if it is free. Other calls with the key should not begin
    /// meanwhile.
    ///
    /// # Panics
    ///
    /// The store does not answer: the panic has its error.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the key may stay reserved for as long as the lease of its procedure.
    pub async fn record(&self, key: impl Into<IdempotencyKey>) -> Record {
        let key = key.into();
        let Some(caller) = &self.caller else { return Record::Absent };
        match self.store.record(caller.owner(), key.id()).await {
            Ok(record) => record,
            Err(error) => panic!("the store does not say what it keeps: {error}"),
        }
    }

    /// Returns the store, for example to set the status of a resource
    /// ([`MemoryStore::set_status`]).
    pub fn store(&self) -> &S {
        &self.store.store
    }

    /// Returns the layer of the process that runs, for example to shut it down.
    pub fn layer(&self) -> IdempotencyLayer {
        self.server.running().layer
    }
}

impl<S> Clone for Harness<S> {
    fn clone(&self) -> Self {
        Self {
            server: Arc::clone(&self.server),
            store: Arc::clone(&self.store),
            runs: Arc::clone(&self.runs),
            caller: self.caller.clone(),
        }
    }
}

impl<S> fmt::Debug for Harness<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("layer", &self.server.running().layer)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

fn cannot_be_built(error: &impl fmt::Display) -> String {
    format!("the idempotency layer cannot be built: {error}")
}

/// Returns the value of the header: the UUID, or any other key as a string of RFC 8941.
fn header(key: &IdempotencyKey) -> AsciiMetadataValue {
    let text = key.as_str();
    let value = match Uuid::try_parse(text) {
        Ok(_) => text.to_owned(),
        Err(_) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    value.try_into().expect("a key consists of visible ASCII characters")
}
