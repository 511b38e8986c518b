//! A server for the fuzz targets.

use std::{
    convert::Infallible,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use bytes::{BufMut as _, Bytes};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use protobuf_canonical::{Canonical, RequestHash};
use tonic::body::Body;
use tonic_idempotency::{
    Caller, IdempotencyKey, IdempotencyLayer, UserId,
    connect::ConnectLayer,
    layer::CompressionEncoding,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy, Mode},
    store::{CallSession, Claim, ClaimOutcome, MemoryStore, Reservation, Store as _},
};
use tower::{Service, ServiceExt as _, util::BoxCloneService};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::catalog::FILE_DESCRIPTOR_SET;

/// The procedure that is called.
pub(super) const PROCEDURE: &str = "/catalog.v1.Catalog/Create";

/// The limit of a request message, in bytes.
pub(super) const LIMIT: usize = 64 << 10;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors"));

static CANONICAL: LazyLock<Canonical> = LazyLock::new(|| Canonical::new(&request_type()));

/// The request type of `PROCEDURE`.
pub(super) fn request_type() -> MessageDescriptor {
    POOL.get_message_by_name("catalog.v1.Item").expect("a message")
}

/// The canonical encoding of the request type.
pub(super) fn canonical() -> &'static Canonical {
    &CANONICAL
}

/// The canonical encoding of the request type without some of its fields: in a message, in lists of messages, in the values of
/// a map, and in a oneof.
pub(super) fn ignoring() -> &'static Canonical {
    static IGNORING: LazyLock<Canonical> = LazyLock::new(|| {
        let paths = [vec![50, 2], vec![35, 3], vec![41, 3, 1], vec![15], vec![22], vec![63]];
        Canonical::ignoring(&request_type(), &paths)
    });
    &IGNORING
}

/// A handler that accepts any message, behind the layer and Connect, and one key of a user.
pub(super) struct World {
    handled: Arc<Mutex<Vec<Bytes>>>,
    store: MemoryStore,
    service: BoxCloneService<Request<Body>, Response<Body>, Infallible>,
    user: UserId,
    key: IdempotencyKey,
}

/// A complete answer.
pub(super) struct Answer {
    pub(super) http: StatusCode,
    pub(super) headers: HeaderMap,
    trailers: HeaderMap,
    pub(super) body: Bytes,
}

impl World {
    pub(super) fn new() -> Self {
        let store = MemoryStore::new();
        let idempotency = IdempotencyLayer::builder(POOL.clone())
            .store(store.clone())
            .adjust_procedures(|procedure| procedure.mode(Mode::Reserved)) // memory has no transactions
            .max_request_bytes(LIMIT)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
            .accept_compressed(CompressionEncoding::Deflate)
            .build()
            .expect("the layer can be built");
        let connect = ConnectLayer::new(POOL.clone()).expect("descriptors").max_message_bytes(LIMIT);
        let handled = Arc::default();
        let service = BoxCloneService::new(connect.layer(idempotency.layer(handler(Arc::clone(&handled)))));
        Self { handled, store, service, user: UserId::new(Uuid::nil()), key: IdempotencyKey::from(Uuid::nil()) }
    }

    /// Sends a body with the key.
    pub(super) async fn send(&self, content_type: &str, encoding: Option<&str>, body: Bytes) -> Answer {
        let mut request = Request::post(PROCEDURE)
            .header("content-type", content_type)
            .header(IdempotencyKey::HEADER, self.key.to_string())
            .extension(self.user.clone());
        if let Some(encoding) = encoding {
            request = request.header("grpc-encoding", encoding);
        }
        let request = request.body(Body::new(Full::new(body))).expect("a request");
        let Ok(response) = self.service.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body without errors");
        let trailers = body.trailers().cloned().unwrap_or_default();
        Answer { http: parts.status, headers: parts.headers, trailers, body: body.to_bytes() }
    }

    /// The messages that the handler got.
    pub(super) fn handled(&self) -> Vec<Bytes> {
        self.handled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the key is free. Reserves it.
    pub(super) async fn key_is_free(&self) -> bool {
        let claim = Claim {
            reservation: Reservation::new(Caller::new(self.user.clone()).owner(), self.key.id()),
            session: CallSession::default(),
            procedure: PROCEDURE.to_owned(),
            request: RequestHash::from([0; 32]).into(),
            lease: Duration::from_secs(60),
            retention: Duration::from_secs(60),
            on_lease_ended: LeasePolicy::Refuse,
            on_foreign_reservation: ForeignPolicy::InProgress,
            effect: EffectPolicy::Anywhere,
            resource_type: None,
        };
        matches!(self.store.claim(&claim).await, Ok(ClaimOutcome::Acquired))
    }
}

impl Answer {
    /// `grpc-status`.
    pub(super) fn code(&self) -> Option<&str> {
        self.trailers.get("grpc-status").or_else(|| self.headers.get("grpc-status"))?.to_str().ok()
    }

    pub(super) fn is_replay(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|replayed| replayed == "true")
    }
}

/// One uncompressed message.
pub(super) fn frame(message: &[u8]) -> Bytes {
    let mut body = Vec::with_capacity(5 + message.len());
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len()).expect("a small message"));
    body.put_slice(message);
    body.into()
}

/// Answers every message with an empty one.
fn handler(
    handled: Arc<Mutex<Vec<Bytes>>>,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send {
    tower::service_fn(move |request: Request<Body>| {
        let handled = Arc::clone(&handled);
        async move {
            let body = request.into_body().collect().await.expect("a body that was read before").to_bytes();
            handled.lock().unwrap_or_else(PoisonError::into_inner).push(body.slice(5..));
            let trailers = [("grpc-status".parse().expect("a name"), "0".parse().expect("a value"))];
            let frames = [
                http_body::Frame::data(frame(b"")),
                http_body::Frame::trailers(trailers.into_iter().collect::<HeaderMap>()),
            ];
            let body = StreamBody::new(tokio_stream::iter(frames.map(Ok::<_, Infallible>)));
            let response = Response::builder().header("content-type", "application/grpc").body(Body::new(body));
            Ok(response.expect("a response"))
        }
    })
}
