//! Failures: answers that are lost, processes that die, and a store that is away.

use std::time::Duration;

use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateOrderRequest, CreateOrderResponse, order_service_client::OrderServiceClient,
        order_service_server::OrderServiceServer,
    },
};
use tonic_idempotency::{
    rejection::Reason,
    testing::{Called, Harness},
};
use uuid::Uuid;

use crate::orders::{InMemory, Orders};

fn harness() -> Harness {
    Harness::new(FILE_DESCRIPTOR_SET, OrderServiceServer::new(Orders(InMemory::default())))
}

async fn order(harness: &Harness, key: Uuid) -> Called<CreateOrderResponse> {
    let mut orders = OrderServiceClient::new(harness.channel());
    let lamp = CreateOrderRequest { item: "lamp".to_owned() };
    harness.call(key, lamp, |request| orders.create_order(request)).await
}

#[tokio::test]
async fn an_answer_that_is_lost_is_replayed() {
    let (harness, key) = (harness(), Uuid::new_v4());
    harness.lose_answers(1);
    order(&harness, key).await.unanswered();
    order(&harness, key).await.replayed();
}

#[tokio::test]
async fn a_process_that_dies_after_the_record_leaves_it_to_the_next_one() {
    let (harness, key) = (harness(), Uuid::new_v4());
    harness.lose_answers(1);
    order(&harness, key).await.unanswered();
    harness.restart().await;
    order(&harness, key).await.replayed();
}

#[tokio::test]
async fn a_process_that_dies_before_the_record_leaves_a_lease() {
    let (harness, key) = (harness(), Uuid::new_v4());
    harness.crash_before_record();
    order(&harness, key).await.unanswered();
    order(&harness, key).await.refused_with(Reason::InProgress);
    harness.advance(Duration::from_secs(60)); // the lease ends
    order(&harness, key).await.executed_once(); // the second order, as `on_lease_ended` is `Rerun` by default
}

#[tokio::test]
async fn a_call_is_refused_while_the_store_is_away() {
    let (harness, key) = (harness(), Uuid::new_v4());
    harness.set_store_available(false);
    order(&harness, key).await.refused_with(Reason::StoreUnavailable);
    harness.set_store_available(true);
    order(&harness, key).await.executed_once();
}
