//! Reconciliation from PostgreSQL's business tables: the records are in Redis, and the orders in PostgreSQL, with the key of each.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use protobuf_canonical::Canonical;
use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{CreateOrderRequest, CreateOrderResponse},
};
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};
use tonic::Code;
use tonic_idempotency::{
    KeyId, OwnerId,
    layer::IdempotencyLayerBuilder,
    policy::{Abandoned, LeasePolicy, Reconciler, Reconciliation},
    rejection::Reason,
    store::{Claim, Reservation, Store as _},
};
use tonic_idempotency_redis::RedisStore;
use uuid::Uuid;

use crate::{
    record::{HOUR, claim},
    servers::{are_missing, cluster, on_cluster, store},
    shop::{CREATE, Shop},
};

/// The business table. Its constraint is what keeps an order from being created twice, whatever becomes of the records.
const ORDERS: &str = "CREATE TABLE orders (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner uuid NOT NULL,
    idempotency_key uuid NOT NULL,
    item text NOT NULL,
    UNIQUE (owner, idempotency_key)
)";

/// Looks for the order of a call.
fn reconciler(orders: Arc<Client>) -> impl Reconciler {
    move |abandoned: Abandoned| {
        let orders = Arc::clone(&orders);
        async move {
            let find = "SELECT id FROM orders WHERE owner = $1 AND idempotency_key = $2";
            let (owner, key) = (abandoned.owner.as_uuid(), abandoned.key.as_uuid());
            let found = orders.query_typed(find, &[(owner, Type::UUID), (key, Type::UUID)]).await?;
            Ok(match found.first() {
                Some(row) => {
                    let order_id = row.get::<_, Uuid>(0).to_string();
                    Reconciliation::completed(&CreateOrderResponse { order_id })
                }
                None => Reconciliation::NotExecuted,
            })
        }
    }
}

fn reconciled(builder: IdempotencyLayerBuilder, store: &RedisStore, orders: &Arc<Client>) -> IdempotencyLayerBuilder {
    let builder = builder.store(store.clone()).reconciler(CREATE, reconciler(Arc::clone(orders)));
    builder.adjust_procedures(|procedure| procedure.on_lease_ended(LeasePolicy::Reconcile))
}

/// Reserves the key, as a server does that dies in the middle of the call.
async fn die(shop: &Shop, store: &RedisStore, item: &str) {
    let message = CreateOrderRequest { item: item.to_owned() }.encode_to_vec();
    let pool = prost_reflect::DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let canonical = Canonical::new(&pool.get_message_by_name("orders.v1.CreateOrderRequest").expect("the message"));
    let claim = Claim {
        reservation: Reservation::new(OwnerId::new(shop.user), KeyId::new(shop.key)),
        request: canonical.hashes(&message).expect("a message"),
        lease: Duration::ZERO,
        retention: HOUR,
        procedure: CREATE.to_owned(),
        ..claim()
    };
    store.claim(&claim).await.expect("the store answers");
}

/// Creates the order, as the handler that died has done.
async fn create_order(orders: &Client, shop: &Shop, item: &str) -> Uuid {
    let insert = "INSERT INTO orders (owner, idempotency_key, item) VALUES ($1, $2, $3) RETURNING id";
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&shop.user, Type::UUID), (&shop.key, Type::UUID), (&item, Type::TEXT)];
    orders.query_typed_one(insert, &parameters).await.expect("an order").get(0)
}

async fn orders() -> (scratch_postgres::TestDatabase, Arc<Client>) {
    let database = scratch_postgres::database(None).await;
    let client = database.connect().await;
    client.batch_execute(ORDERS).await.expect("the table is made");
    (database, Arc::new(client))
}

async fn a_retry_gets_the_order(store: RedisStore) {
    let (_database, orders) = orders().await;
    let shop = Shop::with(|builder| reconciled(builder, &store, &orders)).await;
    die(&shop, &store, "a").await;
    let id = create_order(&orders, &shop, "a").await;
    for _ in 0..2 {
        let found = shop.create("a").await.expect("the order").into_inner();
        assert_eq!(found.order_id, id.to_string());
    }
    assert_eq!(shop.orders.started(), 0);
}

#[tokio::test]
async fn a_retry_gets_the_order_of_a_call_that_died() {
    if !are_missing() {
        a_retry_gets_the_order(store()).await;
    }
}

#[tokio::test]
async fn a_retry_gets_the_order_of_a_call_that_died_in_a_cluster() {
    if !are_missing() {
        a_retry_gets_the_order(on_cluster(cluster())).await;
    }
}

#[tokio::test]
async fn a_retry_runs_if_the_call_that_died_has_left_no_order() {
    if are_missing() {
        return;
    }
    let (store, (_database, orders)) = (store(), orders().await);
    let shop = Shop::with(|builder| reconciled(builder, &store, &orders)).await;
    die(&shop, &store, "a").await;
    shop.create("a").await.expect("the handler runs");
    assert_eq!(shop.orders.started(), 1);
}

#[tokio::test]
async fn a_retry_is_refused_while_the_orders_cannot_be_asked() {
    if are_missing() {
        return;
    }
    let (store, (_database, orders)) = (store(), orders().await);
    let shop = Shop::with(|builder| reconciled(builder, &store, &orders)).await;
    die(&shop, &store, "a").await;
    orders.batch_execute("ALTER TABLE orders RENAME TO gone").await.expect("a table");
    let error = shop.create("a").await.expect_err("no orders");
    assert_eq!(
        (error.code(), Reason::of(&error)),
        (Code::FailedPrecondition, Some(Reason::OutcomeUnknown)),
        "{error:?}"
    );
    assert_eq!(shop.orders.started(), 0);
}

/// Without a retry: the recovery reads the records of all servers, and asks the same reconciler.
#[tokio::test]
async fn the_recovery_records_the_order_of_a_call_that_died() {
    if are_missing() {
        return;
    }
    let (store, (_database, orders)) = (on_cluster(cluster()), orders().await);
    let shop = Shop::with(|builder| reconciled(builder, &store, &orders)).await;
    die(&shop, &store, "a").await;
    let id = create_order(&orders, &shop, "a").await;
    let recovered = shop.layer.recovery().recover().await.expect("the store answers");
    assert_eq!((recovered.completed, recovered.not_executed, recovered.unknown), (1, 0, 0), "{recovered:?}");
    orders.batch_execute("DROP TABLE orders").await.expect("a table");
    let found = shop.create("a").await.expect("a replay").into_inner();
    assert_eq!(found.order_id, id.to_string());
}
