//! A client.

use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{CreateOrderRequest, order_service_client::OrderServiceClient, order_service_server::OrderServiceServer},
};
use tonic_idempotency::testing::Harness;
use tonic_idempotency_client::{IdempotencyClientLayer, Layer as _, journal::Journal};

use crate::orders::{InMemory, Orders};

#[tokio::test]
async fn a_call_whose_answer_is_lost_twice_creates_one_order() {
    let harness = Harness::new(FILE_DESCRIPTOR_SET, OrderServiceServer::new(Orders(InMemory::default())));
    let journal = Journal::builder().in_memory().expect("a journal");
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).journal(journal.clone()).build().expect("a layer");
    let mut orders = OrderServiceClient::new(layer.layer(harness.channel()));

    harness.lose_answers(2);
    orders.create_order(CreateOrderRequest { item: "lamp".to_owned() }).await.expect("an order");
    assert_eq!(harness.runs(), 1);
    assert!(journal.entries().await.expect("the entries").is_empty());
}
