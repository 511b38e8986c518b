//! `cargo run -p drivers-example --example sqlx`: a create call and its retry on sqlx, on a private PostgreSQL server.

use drivers_example::{Database, Error, ORDERS, call};
use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{CreateOrderRequest, CreateOrderResponse, order_service_server::OrderService},
};
use sqlx::postgres::PgPoolOptions;
use tonic::{Request, Response, Status};
use tonic_idempotency::{
    IdempotencyLayer,
    policy::{Mode, Procedure},
    store::ResourceTypes,
};
use tonic_idempotency_sqlx::{SqlxStore, Transaction, TransactionError};
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let database = Database::start(ORDERS).await?;
    let options = tonic_idempotency_sqlx::options(&database.url())?;
    let pool = PgPoolOptions::new().max_connections(8).connect_lazy_with(options);

    let store = SqlxStore::new(pool, ResourceTypes::none());
    store.verify().await?; // says what is wrong with the database
    let create = Procedure::builder("/orders.v1.OrderService/CreateOrder").mode(Mode::Transactional);
    let idempotency = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).procedure(create).build()?;
    call(Orders, idempotency).await
}

struct Orders;

#[tonic::async_trait]
impl OrderService for Orders {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let mut connection = Transaction::from_request(&request)?.connection().await?; // instead of `pool.begin()`
        let insert = sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id");
        let order = insert.bind(&request.get_ref().item).fetch_one(&mut *connection).await;
        let order: Uuid = order.map_err(TransactionError::from)?;
        Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
    }
}
