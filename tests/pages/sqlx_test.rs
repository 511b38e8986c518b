//! With `#[sqlx::test]`.

use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateOrderRequest, CreateOrderResponse,
        order_service_client::OrderServiceClient,
        order_service_server::{OrderService, OrderServiceServer},
    },
};
use sqlx::PgPool;
use tonic::{Code, Request, Response, Status, async_trait};
use tonic_idempotency::{
    IdempotencyLayer,
    layer::BuildError,
    policy::{Mode, Procedure},
    store::{ResourceTypes, Store},
    testing::Harness,
};
use tonic_idempotency_sqlx::{SqlxStore, Transaction, TransactionError};
use uuid::Uuid;

struct Orders;

#[async_trait]
impl OrderService for Orders {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let mut connection = Transaction::from_request(&request)?.connection().await?;
        let insert = sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id");
        let inserted = insert.bind(&request.get_ref().item).fetch_one(&mut *connection).await;
        let id: Uuid = inserted.map_err(TransactionError::from).map_err(explain)?;
        Ok(Response::new(CreateOrderResponse { order_id: id.to_string() }))
    }
}

fn explain(error: TransactionError) -> Status {
    match error.code() {
        Some("23505") => Status::already_exists("somebody has ordered this item"),
        _ => error.into(),
    }
}

fn idempotency(store: impl Store) -> Result<IdempotencyLayer, BuildError> {
    let create = Procedure::builder("/orders.v1.OrderService/CreateOrder").mode(Mode::Transactional);
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).procedure(create).build()
}

#[sqlx::test]
async fn a_retry_does_not_create_a_second_order(pool: PgPool) {
    let store = SqlxStore::new(pool.clone(), ResourceTypes::none());
    let harness = Harness::with_layer(store, idempotency, OrderServiceServer::new(Orders));
    let mut orders = OrderServiceClient::new(harness.channel());
    let lamp = CreateOrderRequest { item: "lamp".to_owned() };
    let [key, other] = [Uuid::new_v4(), Uuid::new_v4()];

    let first = harness.call(key, lamp.clone(), |request| orders.create_order(request)).await.executed_once();
    let retry = harness.call(key, lamp.clone(), |request| orders.create_order(request)).await.replayed();
    assert_eq!(retry.into_message(), first.into_message());
    let failed = harness.call(other, lamp, |request| orders.create_order(request)).await;
    failed.failed_with(Code::AlreadyExists);
    harness.record(other).await.absent();

    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await.expect("a count");
    assert_eq!(count, 1);
}
