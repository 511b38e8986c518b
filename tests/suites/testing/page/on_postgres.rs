//! On a PostgreSQL that runs.

use quickstart::proto::{
    CreateOrderRequest, order_service_client::OrderServiceClient, order_service_server::OrderServiceServer,
};
use tonic::Code;
use tonic_idempotency::{
    store::{PostgresStore, ResourceTypes},
    testing::Harness,
};
use uuid::Uuid;

use super::database::database;
use crate::orders::{InPostgres, Orders, idempotency};

#[tokio::test]
async fn an_order_that_fails_leaves_nothing() {
    // page: let url = std::env::var("DATABASE_URL").expect("the URL of a database for tests");
    let (_database, url) = super::scratch().await;
    let pool = database(&url).await;
    let store = PostgresStore::new(pool.clone(), ResourceTypes::none());
    let harness = Harness::with_layer(store, idempotency, OrderServiceServer::new(Orders(InPostgres)));
    let mut orders = OrderServiceClient::new(harness.channel());
    let lamp = CreateOrderRequest { item: format!("lamp {}", Uuid::new_v4()) }; // other tests use the same table
    let [key, other] = [Uuid::new_v4(), Uuid::new_v4()];

    harness.call(key, lamp.clone(), |request| orders.create_order(request)).await.executed_once();
    harness.call(key, lamp.clone(), |request| orders.create_order(request)).await.replayed();
    let failed = harness.call(other, lamp.clone(), |request| orders.create_order(request)).await;
    failed.failed_with(Code::AlreadyExists);
    harness.record(other).await.absent();

    let client = pool.get().await.expect("a connection");
    let count = client.query_one("SELECT count(*) FROM orders WHERE item = $1", &[&lamp.item]).await.expect("a count");
    assert_eq!(count.get::<_, i64>(0), 1);
}
