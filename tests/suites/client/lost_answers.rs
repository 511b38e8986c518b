//! Requests and answers that are lost on their way to and from our server: the effect of each operation happens once.

use tcp_proxy::{Cut, Direction, Moment};
use tonic::{
    service::{Routes, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};
use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
use tonic_idempotency_client::IdempotencyClient;
use tonic_idempotency_tests::{
    Proxy,
    shop::{Counting, proto::CreateOrderRequest},
    until,
};

use super::foreign::order;
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
