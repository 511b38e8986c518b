//! Requests and answers that are lost on their way to and from our server: the effect of each operation happens once.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    sync::{Arc, Mutex},
};

use tcp_proxy::{Cut, Direction, Moment};
use tokio::time::sleep;
use tonic::{
    body::Body,
    metadata::MetadataMap,
    service::{Routes, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};
use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
use tonic_idempotency_client::{IdempotencyClient, Unresolved};
use tonic_idempotency_tests::{
    Proxy,
    shop::{Counting, proto::CreateOrderRequest},
    until,
};
use tower::service_fn;

use super::foreign::{is_question, order};
use super::prelude::*;

/// Our server behind a proxy, and a client with the layer.
async fn service() -> (Counting, Proxy, ShopClient<IdempotencyClient<Channel>>) {
    let handler = Counting::default();
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build().expect("the layer");
    let wrapped = layer.layer(shop::server(handler.clone()));
    let address = shop::serve(Routes::new(InterceptedService::new(wrapped, shop::authenticate))).await;
    let proxy = Proxy::start(address).expect("a proxy");
    let channel = Endpoint::new(format!("http://{}", proxy.address())).expect("an address").connect_lazy();
    // The attempts are as many as they have to be: a test that is slow makes more of them.
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).max_attempts(u32::MAX);
    let layer = layer.backoff(Duration::from_millis(1), Duration::from_millis(50)).build().expect("the layer");
    (handler, proxy, ShopClient::new(layer.layer(channel)))
}

fn request(name: &str, user: Uuid) -> Request<CreateOrderRequest> {
    shop::with(order(name), Some(user), None)
}

#[tokio::test]
async fn wherever_the_connection_is_cut_there_is_one_order() {
    let (handler, proxy, mut client) = service().await;
    let user = Uuid::new_v4();
    let (mut orders, mut replayed) = (0, 0);
    for direction in [Direction::Requests, Direction::Answers] {
        for left in (0..400).step_by(20) {
            proxy.forget_cuts();
            proxy.cut_later(Cut { all: true, moment: Moment::Bytes { direction, left } }, || {});
            let response = client.create_order(request("shop", user)).await.expect("an order");
            replayed += usize::from(Delivery::of(response.extensions()).replayed);
            let kept = Delivery::expires_in(response.metadata()).expect("it is recorded");
            assert!(kept > Duration::from_secs(86_000), "{kept:?}");
            orders += 1;
            assert_eq!(handler.finished(), orders, "{direction:?} {left}");
        }
    }
    assert!(replayed > 0, "some answers were lost after the effect");
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_waited_for() {
    let (handler, proxy, mut client) = service().await;
    proxy.cut();
    let user = Uuid::new_v4();
    let call = tokio::spawn(async move { client.create_order(request("shop", user)).await });
    until("an attempt is refused", async || proxy.refusals() > 0).await;
    proxy.mend();
    assert!(Delivery::of(call.await.expect("no panic").expect("an order").extensions()).attempts > 1);
    assert_eq!(handler.finished(), 1);
}

/// The answer of a server to an attempt, or the loss of it.
type Sent = Result<http::Response<Body>, Box<dyn std::error::Error + Send + Sync>>;

fn freed(code: Code) -> Sent {
    let mut metadata = MetadataMap::new();
    metadata.insert("idempotency-outcome", "freed".parse().expect("metadata"));
    Ok(Status::with_metadata(code, "", metadata).into_http())
}

/// Makes a call that gets these answers, and returns its result, the time it took, and how many answers are left.
async fn answered(answers: Vec<Sent>, timeout: u64) -> (Result<(), Status>, u64, usize) {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let left = Arc::clone(&answers);
    let service = service_fn(move |request: http::Request<Body>| {
        ready(match is_question(&request) {
            true => Ok(Status::unimplemented("").into_http()),
            false => answers.lock().expect("no panic").pop_front().expect("an answer"),
        })
    });
    let layer = IdempotencyClientLayer::new(FILE_DESCRIPTOR_SET).expect("the layer");
    let mut request = Request::new(order("shop"));
    request.set_timeout(Duration::from_secs(timeout));
    let began = tokio::time::Instant::now();
    let result = ShopClient::new(layer.layer(service)).create_order(request).await;
    let left = left.lock().expect("no panic").len();
    (result.map(|_| ()), began.elapsed().as_secs(), left)
}

/// An attempt whose answer is lost may arrive late, and take the key that the next one has left free.
#[tokio::test(start_paused = true)]
async fn a_failure_that_leaves_the_key_free_is_final_when_no_attempt_is_under_way() {
    let lost = || -> Sent { Err("the connection was cut".into()) };
    let (found, took, left) = answered(vec![lost(), freed(Code::NotFound), freed(Code::NotFound)], 60).await;
    let error = found.expect_err("not found");
    assert_eq!((error.code(), Unresolved::of(&error), left), (Code::NotFound, None, 0));
    assert!((10..13).contains(&took), "{took} s");
    // There is no time to wait for it.
    let (found, took, left) = answered(vec![lost(), freed(Code::NotFound)], 8).await;
    let error = found.expect_err("not found");
    assert_eq!((error.code(), took, left), (Code::NotFound, 0, 0));
    assert!(Unresolved::of(&error).is_some());
    // Neither of these is under way: the first has been answered, the second was not sent.
    for before in [freed(Code::Unavailable), Err(tonic::ConnectError("refused".into()).into())] {
        let (found, took, _) = answered(vec![before, freed(Code::NotFound)], 60).await;
        let error = found.expect_err("not found");
        assert_eq!((error.code(), Unresolved::of(&error), took), (Code::NotFound, None, 0));
    }
}

/// An attempt that was given up has arrived, and waits for the next one, which fails only when it could not arrive any more.
#[tokio::test(start_paused = true)]
async fn a_failure_of_an_attempt_that_another_may_have_waited_for_is_not_final() {
    let calls = Arc::new(Mutex::new(0));
    let made = Arc::clone(&calls);
    let service = service_fn(move |request: http::Request<Body>| {
        let call = (!is_question(&request)).then(|| {
            let mut made = made.lock().expect("no panic");
            *made += 1;
            *made
        });
        async move {
            match call {
                None => Ok(Status::unimplemented("").into_http()),
                Some(1) => pending().await,
                Some(2) => {
                    sleep(Duration::from_millis(9_999)).await;
                    freed(Code::NotFound)
                }
                Some(_) => freed(Code::AlreadyExists),
            }
        }
    });
    let layer = IdempotencyClientLayer::new(FILE_DESCRIPTOR_SET).expect("the layer");
    let error = ShopClient::new(layer.layer(service)).create_order(order("shop")).await.expect_err("what waited");
    assert_eq!((error.code(), Unresolved::of(&error)), (Code::AlreadyExists, None));
    assert_eq!(*calls.lock().expect("no panic"), 3);
}
