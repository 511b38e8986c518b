//! `docs/citus.md`: its statements set up every database of these tests, and the result is as the page describes it.

use super::distributed::Distributed;
use crate::prelude::*;

#[tokio::test]
async fn the_store_finds_the_database_set_up() {
    let Some(distributed) = Distributed::take().await else { return };
    distributed.store().verify().await.expect("the database is set up");
    let other = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "app.invoices")]);
    PostgresStore::new(distributed.pool(1), other).verify().await.expect_err("a type that is not registered");
}
