//! The layer around one generated server, and around all routes.

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tonic::{
    codegen::Service,
    service::{InterceptorLayer, LayerExt as _, Routes},
    transport::Server,
};
use tonic_idempotency::layer::{Idempotency, KeyInterceptor};
use tonic_idempotency_tests::shop::proto::shop_server::ShopServer;
use tower::ServiceExt as _;

use crate::prelude::*;

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build().expect("the layer can be built")
}

async fn assert_protects(address: std::net::SocketAddr) {
    let (user, key) = (Some(Uuid::new_v4()), Some(Uuid::new_v4()));
    let mut client = shop::client(address).await;
    for replayed in [false, true] {
        let response = client.create_order(shop::request("a", user, key)).await.map(Seen::of).expect("a call");
        response.assert("processing", replayed);
        assert!(response.message.contains(&key.expect("a key").to_string()));
    }
}

#[tokio::test]
async fn works_around_one_generated_server_and_keeps_its_name() {
    assert_eq!(Idempotency::<ShopServer<Counting>>::NAME, "shop.v1.Shop");
    let wrapped = InterceptedService::new(layer().layer(shop::server(Counting::default())), shop::authenticate);
    assert_protects(shop::serve(Routes::new(wrapped)).await).await;
}

#[tokio::test]
async fn works_around_all_routes_of_a_server() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::builder()
        .layer(InterceptorLayer::new(shop::authenticate))
        .layer(layer())
        .add_service(shop::server(Counting::default()))
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener));
    tokio::spawn(server);
    assert_protects(address).await;
}

#[tokio::test]
async fn works_behind_the_key_interceptor() {
    let wrapped = layer().layer(shop::server(Counting::default()));
    let wrapped =
        InterceptedService::new(InterceptedService::new(wrapped, KeyInterceptor::default()), shop::authenticate);
    assert_protects(shop::serve(Routes::new(wrapped)).await).await;
}

#[tokio::test]
async fn the_key_interceptor_refuses_a_malformed_key_of_a_procedure_that_is_not_opted_in() {
    let wrapped = layer().layer(shop::server(Counting::default()));
    let address = shop::serve(Routes::new(InterceptedService::new(wrapped, KeyInterceptor::default()))).await;
    let mut request = shop::request("a", None, None);
    request.metadata_mut().insert("idempotency-key", "nonsense".parse().expect("metadata"));
    let status = shop::client(address).await.get_order(request).await.expect_err("refused");
    assert_eq!(
        tonic_idempotency::rejection::Reason::of(&status),
        Some(tonic_idempotency::rejection::Reason::KeyInvalid)
    );
}

tokio::task_local! {
    static FRONT: ();
    static BEHIND: ();
}

/// Whether the innermost middleware has seen the task locals of the two others, in each call.
static SEEN: Mutex<Vec<[bool; 2]>> = Mutex::new(Vec::new());

type Answered = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

/// A middleware that does something around the future of each call.
#[derive(Clone)]
struct Around<S>(S, fn(Answered) -> Answered);

impl<S> Service<http::Request<Body>> for Around<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Answered {
        self.1(Box::pin(self.0.call(request)))
    }
}

impl<S: NamedService> NamedService for Around<S> {
    const NAME: &'static str = S::NAME;
}

#[tokio::test]
async fn a_middleware_behind_it_sets_task_locals_for_each_handler_and_one_in_front_only_without_a_key() {
    let handler = Around(shop::server(Counting::default()), |answered| {
        Box::pin(async {
            SEEN.lock().expect("no panic").push([FRONT.try_with(|()| ()).is_ok(), BEHIND.try_with(|()| ()).is_ok()]);
            answered.await
        })
    });
    let behind = Around(handler, |answered| Box::pin(BEHIND.scope((), answered)));
    let front = Around(layer().layer(behind), |answered| Box::pin(FRONT.scope((), answered)));
    let address = shop::serve(Routes::new(InterceptedService::new(front, shop::authenticate))).await;
    for key in [None, Some(Uuid::new_v4())] {
        let request = shop::request("a", Some(Uuid::new_v4()), key);
        shop::client(address).await.create_order(request).await.expect("a call");
    }
    assert_eq!(*SEEN.lock().expect("no panic"), [[true, true], [false, true]]);
}

/// As docs/getting-started.md has it.
#[tokio::test]
async fn works_inside_a_router_of_axum() {
    let wrapped = InterceptedService::new(layer().named_layer(shop::server(Counting::default())), shop::authenticate);
    let own = axum::Router::new().route("/health", axum::routing::get(async || "well"));
    let router = Routes::new(wrapped).into_axum_router().merge(own);
    let (user, key) = (Some(Uuid::new_v4()), Some(Uuid::new_v4()));
    let mut client = ShopClient::new(router.clone());
    for replayed in [false, true] {
        let response = client.create_order(shop::request("a", user, key)).await.map(Seen::of).expect("a call");
        response.assert("processing", replayed);
    }
    let request = http::Request::get("/health").body(Body::empty()).expect("a request");
    assert_eq!(router.oneshot(request).await.expect("an answer").status(), 200);
}
