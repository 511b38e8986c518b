//! The retry policies of gRPC's own libraries, by a service config: they obey the pushback of the layer.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{HeaderMap, Request, Response};
use tokio::{process::Command, time::timeout};
use tonic::{
    body::Body,
    server::NamedService,
    service::{Routes, interceptor::InterceptedService},
};
use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
use tonic_idempotency_tests::{
    shop::{self, Counting, FILE_DESCRIPTOR_SET},
    until,
};
use tower::Service;
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::{
    call::{Call, Reply},
    clients::{go_driver, java_driver, service_config},
    descriptors::Descriptors,
    driver::Driver,
    expect::{ABORTED, INVALID_ARGUMENT},
    protocol::Protocol,
};

/// The header in which a library reports how often it has sent the call before.
const PREVIOUS: &str = "grpc-previous-rpc-attempts";

/// The delay of `IDEMPOTENCY_IN_PROGRESS`.
const SECOND: Duration = Duration::from_secs(1);

/// The time that a call may take: longer than a pushback, and shorter than the backoff of ten minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The traffic of a server.
#[derive(Clone, Debug, Default)]
struct Wire(Arc<Mutex<Traffic>>);

#[derive(Debug, Default)]
struct Traffic {
    /// The times and the headers of the calls since the last look.
    arrived: Vec<(Instant, HeaderMap)>,
    answered: usize,
}

impl Wire {
    fn answered(&self) -> usize {
        self.0.lock().expect("no panic").answered
    }

    /// The calls since the last look.
    fn take(&self) -> Vec<(Instant, HeaderMap)> {
        std::mem::take(&mut self.0.lock().expect("no panic").arrived)
    }
}

/// A server that notes what arrives.
#[derive(Clone)]
struct Noted<S>(S, Wire);

impl<S: NamedService> NamedService for Noted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Noted<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let wire = Arc::clone(&self.1.0);
        wire.lock().expect("no panic").arrived.push((Instant::now(), request.headers().clone()));
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await;
            wire.lock().expect("no panic").answered += 1;
            answer
        })
    }
}

/// A library with the service config `retries.json`, and a server behind the layer.
struct Library {
    name: &'static str,
    driver: Arc<Driver>,
    wire: Wire,
    handler: Counting,
    user: Uuid,
    _descriptors: Descriptors,
}

impl Library {
    async fn start(name: &'static str, mut command: Command) -> Self {
        let (wire, handler) = (Wire::default(), Counting::default());
        let layer =
            IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build().expect("the layer");
        let noted = Noted(layer.layer(shop::server(handler.clone())), wire.clone());
        let address = shop::serve(Routes::new(InterceptedService::new(noted, shop::authenticate))).await;
        let descriptors = Descriptors::of(FILE_DESCRIPTOR_SET);
        command.arg(address.to_string()).arg(descriptors.path()).arg(service_config());
        let (driver, user) = (Driver::spawn(command), Uuid::new_v4());
        Self { name, driver, wire, handler, user, _descriptors: descriptors }
    }

    async fn call(&self, procedure: &str, name: &str, key: Uuid) -> Reply {
        let call = Call {
            procedure: format!("shop.v1.Shop/{procedure}"),
            message: serde_json::json!({ "name": name }),
            headers: Vec::new(),
            timeout_ms: None,
        };
        let call = call.key(key).header("user", self.user);
        let reply = timeout(PATIENCE, self.driver.call(self.name, Protocol::Grpc, &call)).await;
        reply.expect("an end of the retries").expect("a reply")
    }

    /// The second attempt comes after the pushback, and not after the backoff of ten minutes.
    async fn waits_as_long_as_the_layer_says(&self) {
        let key = Uuid::new_v4();
        let second = async {
            until("the handler runs", async || self.handler.started() == 1).await;
            self.call("CreateOrder", "hold", key).await
        };
        let end_of_first = async {
            until("the second call is refused", async || self.wire.answered() == 1).await;
            self.handler.open(1);
        };
        let (first, second, ()) = tokio::join!(self.call("CreateOrder", "hold", key), second, end_of_first);
        assert_eq!((first.code, second.code, self.handler.finished()), (0, 0, 1), "{first:?} {second:?}");
        assert_eq!(first.body, second.body);
        assert_eq!(second.header("idempotent-replayed"), Some("true"), "{second:?}");

        let arrived = self.wire.take();
        let [_, (refused, once), (again, twice)] = &arrived[..] else { panic!("three attempts: {arrived:?}") };
        assert!(*again - *refused >= SECOND - SECOND / 20, "{:?}", *again - *refused);
        assert_eq!((once.get(PREVIOUS), &twice[PREVIOUS]), (None, &http::HeaderValue::from_static("1")));
        assert_eq!(once["idempotency-key"], twice["idempotency-key"]);
    }

    /// The code is one that the policy tries again.
    async fn does_not_try_again_if_the_layer_says_never(&self) {
        let key = Uuid::new_v4();
        assert_eq!(self.call("Touch", "a", key).await.code, 0);
        let _ = self.wire.take();
        let reused = self.call("Touch", "another", key).await;
        assert_eq!((reused.code, self.wire.take().len()), (INVALID_ARGUMENT, 1), "{reused:?}");
        for code in [INVALID_ARGUMENT, ABORTED] {
            let failed = self.call("Touch", &format!("fail with {code}"), Uuid::new_v4()).await;
            assert_eq!((failed.code, self.wire.take().len()), (code, 3), "of the handler: {failed:?}");
        }
    }

    async fn obeys_the_layer(self) {
        self.waits_as_long_as_the_layer_says().await;
        self.does_not_try_again_if_the_layer_says_never().await;
        self.driver.end().await;
    }
}

#[tokio::test]
async fn of_grpc_go_obey_the_layer() {
    let Some(program) = go_driver().await else { return };
    Library::start("grpc-go", Command::new(program)).await.obeys_the_layer().await;
}

#[tokio::test]
async fn of_grpc_java_obey_the_layer() {
    let Some(command) = java_driver().await else { return };
    Library::start("grpc-java", command).await.obeys_the_layer().await;
}
