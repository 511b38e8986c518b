//! On a PostgreSQL in a container.

use quickstart::proto::{
    CreateOrderRequest, order_service_client::OrderServiceClient, order_service_server::OrderServiceServer,
};
use tonic_idempotency::{
    store::{PostgresStore, ResourceTypes},
    testing::Harness,
};
use uuid::Uuid;

use super::{container, database::database};
use crate::orders::{InPostgres, Orders, idempotency};

#[tokio::test]
async fn one_of_twenty_calls_at_once_creates_the_order() {
    // Elsewhere: let container = Postgres::default().with_tag("17-alpine").start().await.expect("a container engine");
    let Some(container) = container().await else { return };
    let port = container.get_host_port_ipv4(5432).await.expect("the port of PostgreSQL");
    let pool = database(&format!("postgres://postgres:postgres@127.0.0.1:{port}/postgres")).await;
    let store = PostgresStore::new(pool, ResourceTypes::none());
    let harness = Harness::with_layer(store, idempotency, OrderServiceServer::new(Orders(InPostgres)));
    let orders = OrderServiceClient::new(harness.channel());
    let (key, lamp) = (Uuid::new_v4(), CreateOrderRequest { item: "lamp".to_owned() });

    let create = async |request| orders.clone().create_order(request).await;
    harness.at_once(20, key, lamp, create).await.executed_once();
}
