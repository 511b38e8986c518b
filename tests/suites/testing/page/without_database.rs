//! Without a database.

use std::time::Duration;

use quickstart::proto::{
    CreateOrderRequest, order_service_client::OrderServiceClient, order_service_server::OrderServiceServer,
};
use tonic_idempotency::{rejection::Reason, store::MemoryStore, testing::Harness};
use uuid::Uuid;

use crate::orders::{InMemory, Orders, idempotency};

#[tokio::test]
async fn a_retry_does_not_create_a_second_order() {
    let (store, service) = (MemoryStore::new().accept_transactions(), Orders(InMemory::default()));
    let harness = Harness::with_layer(store, idempotency, OrderServiceServer::new(service));
    let mut orders = OrderServiceClient::new(harness.channel());
    let [lamp, chair] = ["lamp", "chair"].map(|item| CreateOrderRequest { item: item.to_owned() });
    let key = Uuid::new_v4();

    let first = harness.call(key, lamp.clone(), |request| orders.create_order(request)).await.executed_once();
    let retry = harness.call(key, lamp.clone(), |request| orders.create_order(request)).await.replayed();
    assert_eq!(retry.into_message(), first.into_message());
    harness.call(key, chair, |request| orders.create_order(request)).await.refused_with(Reason::KeyReused);

    harness.advance(Duration::from_secs(24 * 3600)); // the record expires
    harness.call(key, lamp, |request| orders.create_order(request)).await.executed_once();
    assert_eq!(harness.runs(), 2);
}
