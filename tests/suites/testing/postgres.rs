//! A harness on PostgreSQL.

use tokio_postgres::types::Type;
use tonic_idempotency_tests::API_ROLE;

use super::harness::{call, create, hold, on, running, transactional};
use super::prelude::*;

async fn insert(request: Request<CreateOrderRequest>) -> Result<String, Status> {
    let transaction = Transaction::from_request(&request)?;
    let item = request.into_inner().item;
    let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id::text";
    let row = transaction.query_typed_one(insert, &[(&item, Type::TEXT)]).await?;
    if item == "nothing" { Err(Status::not_found("no such item")) } else { Ok(row.get(0)) }
}

#[tokio::test]
async fn commits_the_effect_of_a_transactional_call_with_its_record() {
    let (database, owner) = Database::with_owner().await;
    let table = format!(
        "CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item text NOT NULL);
         GRANT SELECT, INSERT ON orders TO {API_ROLE};"
    );
    owner.batch_execute(&table).await.expect("the table is made");
    let (harness, orders) = on(database.store(), insert, transactional);
    let (key, failed) = (Uuid::new_v4(), Uuid::new_v4());

    let first = call(&harness, &orders, key, "lamp").await.executed_once().into_message();
    assert_eq!(call(&harness, &orders, key, "lamp").await.replayed().into_message(), first);
    call(&harness, &orders, key, "chair").await.refused_with(Reason::KeyReused);
    assert_eq!(harness.record(key).await.completed::<CreateOrderResponse>(), first);
    call(&harness, &orders, failed, "nothing").await.failed_with(Code::NotFound);
    harness.record(failed).await.absent();
    let count: i64 = owner.query_one("SELECT count(*) FROM orders", &[]).await.expect("the count").get(0);
    assert_eq!(count, 1);
}

#[tokio::test]
async fn tells_what_the_database_keeps_of_a_key() {
    for describe in [transactional, |procedure| procedure] {
        let database = Database::new().await;
        let gate = Arc::new(Semaphore::new(0));
        let (harness, orders) = on(database.store(), hold(&gate), describe);
        let key = Uuid::new_v4();
        harness.record(key).await.absent();
        let first = running(&harness, &orders, key, "lamp").await;
        assert_eq!(harness.record(key).await, Record::Reserved);
        gate.add_permits(1);
        let first = first.await.expect("no panic").executed_once().into_message();
        assert_eq!(harness.record(key).await.completed::<CreateOrderResponse>(), first);
        let keys = "SELECT count(*) FROM tenant.idempotency_keys";
        let count: i64 = database.owner().await.query_one(keys, &[]).await.expect("the count").get(0);
        assert_eq!(count, 1, "a look leaves nothing behind");
    }
}

#[tokio::test]
#[should_panic(expected = "the store does not say what it keeps: the idempotency store refused the operation")]
async fn does_not_take_a_broken_store_for_one_without_a_record() {
    let database = Database::new().await;
    let (harness, orders) = on(database.store(), create, |procedure| procedure);
    let key = Uuid::new_v4();
    call(&harness, &orders, key, "lamp").await.executed_once();
    database.owner().await.batch_execute("DROP TABLE tenant.idempotency_keys CASCADE").await.expect("it is dropped");
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::StoreFailed);
    harness.record(key).await.absent();
}
