//! Errors of connections that only sqlx has.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use tonic_idempotency::store::{Store as _, StoreErrorKind};
use tonic_idempotency_sqlx::SqlxStore;
use tonic_idempotency_tests::Database;

#[tokio::test]
async fn of_a_server_without_tls_are_refusals() {
    let database = Database::new().await;
    let options: PgConnectOptions = database.url().parse().expect("a URL");
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options.ssl_mode(PgSslMode::Require));
    let store = SqlxStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(2));
    assert_eq!(store.sweep(1).await.expect_err("no connection").kind(), StoreErrorKind::Refused);
}
