//! The sweep, on the API's own role.

use std::time::Duration;

use tokio_postgres::Client;
use tonic_idempotency::{Sweeper, store::Completion, store::Store};
use tonic_idempotency_tests::{Database, rows_read, until};
use uuid::Uuid;

use crate::record::{acquire, claim, complete, completion};

async fn rows(owner: &Client) -> i64 {
    owner.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("the count").get(0)
}

/// Records of as many users that expired, completed and reserved, and four that did not.
async fn fill(database: &Database, expired: u32) {
    let store = database.store();
    for number in 0..expired {
        let claim = claim(Uuid::new_v4(), Uuid::new_v4());
        if number % 2 == 0 {
            complete(&store, &claim, &completion("gone")).await;
        } else {
            acquire(&store, &claim).await;
        }
    }
    let owner = database.owner().await;
    owner
        .batch_execute("UPDATE tenant.idempotency_keys SET expires = now() - interval '1 second'")
        .await
        .expect("all expire");
    for _ in 0..2 {
        complete(&store, &claim(Uuid::new_v4(), Uuid::new_v4()), &completion("stays")).await;
        acquire(&store, &claim(Uuid::new_v4(), Uuid::new_v4())).await;
    }
}

#[tokio::test]
async fn deletes_the_expired_rows_of_everybody_and_nothing_else() {
    let database = Database::new().await;
    fill(&database, 10).await;
    assert_eq!(Sweeper::new(database.store()).batch(3).sweep().await.expect("the sweep"), 10);
    assert_eq!(rows(&database.owner().await).await, 4);
    assert_eq!(Sweeper::new(database.store()).sweep().await.expect("the sweep"), 0);
}

/// The trap of FUN-15: PostgreSQL asks the SELECT policies too for a DELETE that has a WHERE.
#[tokio::test]
async fn fun15s_own_statement_deletes_none() {
    let database = Database::new().await;
    fill(&database, 10).await;
    let deleted = database.api().await.execute("DELETE FROM tenant.idempotency_keys WHERE expires < now()", &[]).await;
    assert_eq!(deleted.expect("the statement"), 0);
}

/// The policies of the sweep let through no more than expired rows, even with its setting on.
#[tokio::test]
async fn reads_and_changes_nothing_that_has_not_expired() {
    let database = Database::new().await;
    fill(&database, 10).await;
    let api = database.api().await;
    api.batch_execute("SET app.idempotency_sweep = 'on'").await.expect("the setting");
    let seen: i64 = api.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("the count").get(0);
    assert_eq!(seen, 10);
    for set in ["expires = now() + interval '1 day'", "procedure = 'another'"] {
        let update = api.execute(&format!("UPDATE tenant.idempotency_keys SET {set}"), &[]).await;
        let error = update.expect_err(set);
        assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE), "{set}");
    }
    assert_eq!(api.execute("DELETE FROM tenant.idempotency_keys", &[]).await.expect("the statement"), 10);
    assert_eq!(rows(&database.owner().await).await, 4);
}

#[tokio::test]
async fn works_where_the_applications_function_raises_an_error_without_a_user() {
    let database = Database::new().await;
    fill(&database, 4).await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "CREATE OR REPLACE FUNCTION authn.current_user_id() RETURNS uuid LANGUAGE sql STABLE
             AS $$ SELECT current_setting('app.current_user_id')::uuid $$",
        )
        .await
        .expect("the function is FUN-15's");
    assert_eq!(database.store().sweep(100).await.expect("the sweep"), 4);
}

#[tokio::test]
async fn does_not_read_what_has_not_expired() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
             SELECT gen_random_uuid(), gen_random_uuid(), '/a/b', '', now() + interval '1 hour'
             FROM generate_series(1, 5000);
             ANALYZE tenant.idempotency_keys",
        )
        .await
        .expect("many rows");
    let api = database.api().await;
    // In one transaction: only at its end does PostgreSQL hand its counts on.
    api.batch_execute("BEGIN").await.expect("a transaction");
    let before = rows_read(&api, "tenant.idempotency_keys").await;
    api.execute("SELECT tenant.idempotency_sweep(100)", &[]).await.expect("the sweep");
    let read = rows_read(&api, "tenant.idempotency_keys").await - before;
    assert!(read < 100, "{read} rows read, and none has expired");
}

#[tokio::test]
async fn sweeps_at_each_interval_until_stopped() {
    let database = Database::new().await;
    fill(&database, 10).await;
    let owner = database.owner().await;
    let sweeping = Sweeper::new(database.store()).interval(Duration::from_millis(10)).batch(4).spawn();
    until("the expired rows go", async || rows(&owner).await == 4).await;

    sweeping.stop().await;
    let expired = claim(Uuid::new_v4(), Uuid::new_v4());
    complete(&database.store(), &expired, &Completion { retention: Duration::ZERO, ..completion("stays") }).await;
    assert_eq!(rows(&owner).await, 5);
    acquire(&database.store(), &claim(Uuid::new_v4(), Uuid::new_v4())).await;
    assert_eq!(rows(&owner).await, 6);
}
