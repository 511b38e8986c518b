//! Shredding: an operator deletes the transit key of a scope, and the scope's records in PostgreSQL are erased, also those of a backup.

use deadpool_postgres::{Manager, Pool};
use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateOrderRequest, CreateOrderResponse,
        order_service_client::OrderServiceClient,
        order_service_server::{OrderService, OrderServiceServer},
    },
};
use tokio_postgres::NoTls;
use tonic::{Request, Response, Status};
use tonic_idempotency::{
    Caller, IdempotencyLayer, migrations,
    rejection::Reason,
    store::{PostgresStore, ResourceTypes, Schema},
    testing::{Called, Harness, HarnessStore},
};
use tonic_idempotency_vault::VaultKeys;
use uuid::Uuid;

use crate::engine::{Engine, caller, pass_time};

/// Answers with a secret.
#[derive(Clone, Copy, Debug)]
struct Orders;

#[tonic::async_trait]
impl OrderService for Orders {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let item = request.into_inner().item;
        if item == "fails" {
            return Err(Status::failed_precondition("a secret reason"));
        }
        Ok(Response::new(CreateOrderResponse { order_id: format!("a secret {item}") }))
    }
}

/// A server on a store, with keys.
fn server(pool: &Pool, keys: VaultKeys) -> Harness<PostgresStore> {
    let layer = move |store: HarnessStore<PostgresStore>| {
        IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).seal(keys.clone()).build()
    };
    Harness::with_layer(PostgresStore::new(pool.clone(), ResourceTypes::none()), layer, OrderServiceServer::new(Orders))
}

async fn order(
    harness: &Harness<PostgresStore>,
    caller: &Caller,
    key: Uuid,
    item: &str,
) -> Called<CreateOrderResponse> {
    let harness = harness.as_caller(caller.clone());
    let mut orders = OrderServiceClient::new(harness.channel());
    let request = CreateOrderRequest { item: item.to_owned() };
    harness.call(key, request, |request| orders.create_order(request)).await
}

#[tokio::test]
async fn erases_the_records_of_one_scope_and_those_of_a_backup() {
    let Some(engine) = Engine::new().await else { return };
    let database = scratch_postgres::database(None).await;
    let mut owner = database.connect().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    let manager = Manager::new(database.url().parse().expect("an address"), NoTls);
    let pool = Pool::builder(manager).build().expect("a pool");
    let (acme, globex, key) = (caller("acme"), caller("globex"), Uuid::new_v4());
    let keys = engine.keys();
    let [one, other] = [keys.clone(), engine.keys()].map(|keys| server(&pool, keys));

    for caller in [&acme, &globex] {
        order(&one, caller, key, "lamp").await.executed_once();
        let replay = order(&other, caller, key, "lamp").await.replayed();
        assert_eq!(replay.into_message().order_id, "a secret lamp");
    }
    owner.batch_execute("CREATE TABLE backup AS SELECT * FROM tenant.idempotency_keys").await.expect("a backup");
    let plain = "SELECT count(*) FROM backup WHERE backup::text LIKE '%secret%'
                    OR encode(response_bytes, 'escape') LIKE '%secret%'
                    OR encode(response_metadata, 'escape') LIKE '%secret%'";
    let plain: i64 = owner.query_one(plain, &[]).await.expect("the rows").get(0);
    assert_eq!(plain, 0);

    engine.delete(&keys.key_name(acme.scope.as_ref())).await;
    pass_time().await;
    let restarted = server(&pool, engine.keys());
    for server in [&one, &other, &restarted] {
        order(server, &acme, key, "lamp").await.refused_with(Reason::NotStored);
        order(server, &acme, key, "chair").await.refused_with(Reason::KeyReused);
        order(server, &globex, key, "lamp").await.replayed();
        order(server, &globex, key, "chair").await.refused_with(Reason::KeyReused);
    }

    // New calls of the scope make a new key, which opens none of the old records.
    let later = Uuid::new_v4();
    order(&one, &acme, later, "lamp").await.executed_once();
    order(&other, &acme, later, "lamp").await.replayed();
    let restore = "TRUNCATE tenant.idempotency_keys; INSERT INTO tenant.idempotency_keys SELECT * FROM backup";
    owner.batch_execute(restore).await.expect("the backup is restored");
    for server in [&one, &other, &restarted] {
        order(server, &acme, key, "lamp").await.refused_with(Reason::NotStored);
        order(server, &globex, key, "lamp").await.replayed();
    }
}
