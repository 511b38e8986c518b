//! The database of the charges, on a private PostgreSQL server.

use deadpool_postgres::{Manager, Pool};
use tokio_postgres::NoTls;
use tonic_idempotency::store::{PostgresStore, ResourceTypes};

use crate::{Error, worker::AT_ONCE};

/// The application's own migration. No constraint would stop a second charge of an order, or a second booking.
pub(crate) const TABLES: &str =
    "CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY, order_id text NOT NULL, cents bigint NOT NULL);
     CREATE TABLE bookings (LIKE charges INCLUDING ALL)";

/// Returns the store of a worker.
pub(crate) async fn store(url: &str) -> Result<PostgresStore, Error> {
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(AT_ONCE).build()?;
    let store = PostgresStore::new(pool, ResourceTypes::none());
    store.verify().await?; // says what is wrong with the database
    Ok(store)
}

/// Returns how many orders are in a table once, and how many more often.
pub(crate) async fn count(url: &str, table: &str) -> Result<[i64; 2], Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let count = format!(
        "SELECT count(*) FILTER (WHERE times = 1), count(*) FILTER (WHERE times > 1) \
         FROM (SELECT count(*) AS times FROM {table} GROUP BY order_id) AS orders"
    );
    let row = client.query_one(&count, &[]).await?;
    Ok([row.try_get(0)?, row.try_get(1)?])
}
