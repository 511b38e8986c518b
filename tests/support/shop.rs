//! The service behind the layer in the layer's tests.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, SemaphorePermit},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code, Request, Response, Status,
    codec::CompressionEncoding,
    metadata::{MetadataMap, MetadataValue},
    service::Routes,
    transport::{Channel, Endpoint, Server},
};
use tonic_idempotency::{Execution, IdempotencyKey, UserId};
use tonic_types::{ErrorDetails, StatusExt as _};
use tower::service_fn;
use uuid::Uuid;

use proto::{
    CreateOrderReply, CreateOrderRequest, Order, PayReply, Receipt, TouchReply,
    shop_client::ShopClient,
    shop_server::{Shop, ShopServer},
};

/// The package `shop.v1`.
#[allow(missing_docs, missing_debug_implementations)]
pub mod proto {
    tonic::include_proto!("shop.v1");
}

/// The descriptors, with their options.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shop.fds"));

/// The descriptors without their options: a round trip through prost-types drops them.
pub const LOSSY_FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lossy.fds"));

/// Counts the work of its handlers, and holds handlers that are told to wait.
#[derive(Clone, Debug)]
pub struct Counting {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    started: AtomicUsize,
    finished: AtomicUsize,
    lost: AtomicUsize,
    gate: Semaphore,
}

impl Default for Counting {
    fn default() -> Self {
        let none = || AtomicUsize::new(0);
        let inner = Inner { started: none(), finished: none(), lost: none(), gate: Semaphore::new(0) };
        Self { inner: Arc::new(inner) }
    }
}

impl Counting {
    /// The number of handlers that have started.
    pub fn started(&self) -> usize {
        self.inner.started.load(Ordering::SeqCst)
    }

    /// The number of handlers that have succeeded, which is the number of effects.
    pub fn finished(&self) -> usize {
        self.inner.finished.load(Ordering::SeqCst)
    }

    /// The number of handlers that waited for the loss of their lease and were told of it.
    pub fn lost(&self) -> usize {
        self.inner.lost.load(Ordering::SeqCst)
    }

    /// Lets this many held handlers continue.
    pub fn open(&self, handlers: usize) {
        self.inner.gate.add_permits(handlers);
    }

    /// Carries out the steps in the request's name; `shop.proto` describes them.
    async fn work<T>(&self, request: &Request<T>, name: &str) -> Result<(), Status> {
        let execution = Execution::from_request(request);
        let started = self.inner.started.fetch_add(1, Ordering::SeqCst) + 1;
        for step in name.split(" and ") {
            match step {
                "block" => self.block(),
                "block in place" => tokio::task::block_in_place(|| self.block()),
                "effect" => execution.effect_committed(),
                "final" => execution.final_error(),
                "forget" => execution.do_not_record(),
                "keep a minute" => execution.keep_for(Duration::from_secs(60)),
                "keep for ever" => execution.keep_for(Duration::MAX),
                "fail" => return Err(Status::not_found("no such thing")),
                "fail at first" if started == 1 => return Err(Status::not_found("no such thing")),
                "fail for good" => return Err(shipped()),
                "hold" => self.inner.gate.acquire().await.map_err(|_| Status::aborted("closed"))?.forget(),
                "lose" => {
                    execution.lease_lost().cancelled().await;
                    self.inner.lost.fetch_add(1, Ordering::SeqCst);
                }
                "panic" => panic!("the handler was told to"),
                step => {
                    if let Some(code) = step.strip_prefix("fail with ").and_then(|code| code.parse().ok()) {
                        return Err(Status::new(Code::from_i32(code), "as asked"));
                    }
                }
            }
        }
        self.inner.finished.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Blocks the thread until the handler is let go, for at most half a minute: a runtime waits for its threads.
    fn block(&self) {
        let began = Instant::now();
        while self.inner.gate.try_acquire().map(SemaphorePermit::forget).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "nobody let the handler go");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A final error that uses everything that a status can hold.
pub fn shipped() -> Status {
    let mut details = ErrorDetails::new();
    details
        .set_error_info("SHIPPED", "shop.example", HashMap::from([("order".to_owned(), "17".to_owned())]))
        .add_precondition_failure_violation("STATE", "order/17", "it was shipped");
    let mut metadata = MetadataMap::new();
    metadata.insert("shop-region", MetadataValue::from_static("here"));
    metadata.append("shop-note", MetadataValue::from_static("one"));
    metadata.append("shop-note", MetadataValue::from_static("two"));
    metadata.insert_bin("shop-trace-bin", MetadataValue::from_bytes(b"\0trace\xff"));
    // The layer knows better.
    metadata.insert("idempotency-outcome", MetadataValue::from_static("freed"));
    metadata.insert("set-cookie", MetadataValue::from_static("session=of-the-first-caller"));
    metadata.insert("authorization", MetadataValue::from_static("Bearer of-the-first-caller"));
    let message = "the order was shipped: \u{2713} 100 %";
    Status::with_error_details_and_metadata(Code::FailedPrecondition, message, details, metadata)
}

#[tonic::async_trait]
impl Shop for Counting {
    async fn create_order(&self, request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderReply>, Status> {
        let key = request.extensions().get::<IdempotencyKey>().map(ToString::to_string).unwrap_or_default();
        self.work(&request, &request.get_ref().name).await?;
        let name = request.into_inner().name;
        let id = if name == "empty" { String::new() } else { Uuid::new_v4().to_string() };
        let mut response = Response::new(CreateOrderReply { order: Some(Order { id, name }), key });
        response.metadata_mut().insert("shop-region", tonic::metadata::MetadataValue::from_static("here"));
        Ok(response)
    }

    async fn pay(&self, request: Request<CreateOrderRequest>) -> Result<Response<PayReply>, Status> {
        self.work(&request, &request.get_ref().name).await?;
        let receipt = |number: &str| Receipt { number: number.to_owned(), secret: "hidden".to_owned() };
        Ok(Response::new(PayReply {
            payment_id: Uuid::new_v4().as_bytes().to_vec(),
            secret: "hidden".to_owned(),
            receipts: vec![receipt("one"), receipt("two")],
        }))
    }

    async fn touch(&self, request: Request<CreateOrderRequest>) -> Result<Response<TouchReply>, Status> {
        self.work(&request, &request.get_ref().name).await?;
        Ok(Response::new(TouchReply {}))
    }

    async fn cancel(&self, request: Request<CreateOrderRequest>) -> Result<Response<TouchReply>, Status> {
        self.touch(request).await
    }

    async fn get_order(&self, request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderReply>, Status> {
        self.create_order(request).await
    }

    type WatchOrdersStream = tokio_stream::Iter<std::vec::IntoIter<Result<CreateOrderReply, Status>>>;

    async fn watch_orders(&self, _: Request<CreateOrderRequest>) -> Result<Response<Self::WatchOrdersStream>, Status> {
        let reply = |name: &str| {
            Ok(CreateOrderReply {
                order: Some(Order { name: name.to_owned(), ..Order::default() }),
                ..Default::default()
            })
        };
        Ok(Response::new(tokio_stream::iter(vec![reply("one"), reply("two")])))
    }
}

/// The generated server of a handler. It accepts compressed requests, and compresses responses if the client accepts
/// that.
pub fn server(handler: Counting) -> ShopServer<Counting> {
    ShopServer::new(handler).accept_compressed(CompressionEncoding::Gzip).send_compressed(CompressionEncoding::Gzip)
}

/// Takes the user from the metadata `user`. A real service would use an authenticated token.
pub fn authenticate(mut request: Request<()>) -> Result<Request<()>, Status> {
    let user = request.metadata().get("user").and_then(|user| user.to_str().ok()?.parse().ok());
    if let Some(user) = user {
        request.extensions_mut().insert(UserId::new(user));
    }
    Ok(request)
}

/// Serves on a free port of the loopback interface until the test ends.
pub async fn serve(routes: Routes) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(Server::builder().add_routes(routes).serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

/// Serves over an in-memory pipe until the test ends, and connects to it. With paused time, time passes only while all
/// tasks are idle: nothing depends on the speed of the machine.
pub async fn serve_in_memory(routes: Routes) -> Channel {
    let (client, server) = tokio::io::duplex(1 << 20);
    let incoming = tokio_stream::once(Ok::<_, io::Error>(server));
    tokio::spawn(Server::builder().add_routes(routes).serve_with_incoming(incoming));
    let mut client = Some(TokioIo::new(client));
    let connector = service_fn(move |_| {
        let client = client.take().ok_or_else(|| io::Error::other("there is one pipe"));
        std::future::ready(client)
    });
    Endpoint::from_static("http://in.memory").connect_with_connector(connector).await.expect("the server listens")
}

/// A client on a new connection.
pub async fn client(address: SocketAddr) -> ShopClient<Channel> {
    ShopClient::new(channel(address).await)
}

/// A new connection.
pub async fn channel(address: SocketAddr) -> Channel {
    Endpoint::new(format!("http://{address}")).expect("an address").connect().await.expect("the server listens")
}

/// A request with a name, as a user and with a key.
pub fn request(name: &str, user: Option<Uuid>, key: Option<Uuid>) -> Request<CreateOrderRequest> {
    let labels = HashMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
    with(CreateOrderRequest { name: name.to_owned(), labels, ..Default::default() }, user, key)
}

/// A request with any message, as a user and with a key.
pub fn with<T>(message: T, user: Option<Uuid>, key: Option<Uuid>) -> Request<T> {
    let mut request = Request::new(message);
    for (name, id) in [("user", user), ("idempotency-key", key)] {
        if let Some(id) = id {
            request.metadata_mut().insert(name, id.to_string().parse().expect("a UUID is metadata"));
        }
    }
    request
}
