//! `cargo run -p drivers-example --example sea_orm`: a create call and its retry on SeaORM, on a private PostgreSQL server.

use drivers_example::{Database as PrivateDatabase, Error, ORDERS, call};
use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{CreateOrderRequest, CreateOrderResponse, order_service_server::OrderService},
};
use sea_orm::{ActiveModelTrait as _, ActiveValue::Set, Database};
use tonic::{Request, Response, Status};
use tonic_idempotency::{
    IdempotencyLayer,
    policy::{Mode, Procedure},
    store::ResourceTypes,
};
use tonic_idempotency_sea_orm::{SeaOrm, SeaOrmStore, Transaction, TransactionError};
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let private = PrivateDatabase::start(ORDERS).await?;
    let database = Database::connect(private.url()).await?;

    let store = SeaOrmStore::new(SeaOrm::new(&database)?, ResourceTypes::none());
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
        let transaction = Transaction::from_request(&request)?; // instead of the `DatabaseConnection`
        let order = order::ActiveModel { id: Set(Uuid::new_v4()), item: Set(request.into_inner().item) };
        let order = order.insert(&transaction).await.map_err(TransactionError::from)?;
        Ok(Response::new(CreateOrderResponse { order_id: order.id.to_string() })) // no COMMIT: the layer commits
    }
}

mod order {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub(super) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub(super) id: Uuid,
        pub(super) item: String,
    }

    #[derive(Clone, Copy, Debug, DeriveRelation, EnumIter)]
    pub(super) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
