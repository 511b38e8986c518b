//! The service of `docs/testing.md`.

use std::sync::Mutex;

use http::Extensions;
use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{CreateOrderRequest, CreateOrderResponse, order_service_server::OrderService},
};
use tokio_postgres::{error::SqlState, types::Type};
use tonic::{Request, Response, Status, async_trait};
use tonic_idempotency::{
    IdempotencyLayer, Transaction,
    layer::BuildError,
    policy::{Mode, Procedure},
    store::{Store, TransactionError},
};

/// The layer, on the store of a server or of a test.
pub(crate) fn idempotency(store: impl Store) -> Result<IdempotencyLayer, BuildError> {
    let create = Procedure::builder("/orders.v1.OrderService/CreateOrder").mode(Mode::Transactional);
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).procedure(create).build()
}

pub(crate) struct Orders<R>(pub(crate) R);

#[async_trait]
impl<R: Repository> OrderService for Orders<R> {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let order_id = self.0.insert(request.extensions(), &request.get_ref().item).await?;
        Ok(Response::new(CreateOrderResponse { order_id }))
    }
}

/// The place of the orders. The extensions are those of the call's request.
#[async_trait]
pub(crate) trait Repository: Send + Sync + 'static {
    async fn insert(&self, extensions: &Extensions, item: &str) -> Result<String, Status>;
}

/// The orders of a server: written through the transaction of the call.
pub(crate) struct InPostgres;

#[async_trait]
impl Repository for InPostgres {
    async fn insert(&self, extensions: &Extensions, item: &str) -> Result<String, Status> {
        let transaction = Transaction::from_extensions(extensions)?;
        let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id::text";
        let row = transaction.query_typed_one(insert, &[(&item, Type::TEXT)]).await.map_err(explain)?;
        Ok(row.get("id"))
    }
}

fn explain(error: TransactionError) -> Status {
    match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => Status::already_exists("somebody has ordered this item"),
        _ => error.into(),
    }
}

/// The orders of a test without a database.
#[derive(Default)]
pub(crate) struct InMemory(Mutex<Vec<String>>);

#[async_trait]
impl Repository for InMemory {
    async fn insert(&self, _: &Extensions, item: &str) -> Result<String, Status> {
        let mut items = self.0.lock().map_err(|_| Status::internal("a test has panicked"))?;
        items.push(item.to_owned());
        Ok(format!("order-{}", items.len()))
    }
}
