//! The database: a private PostgreSQL server.

use deadpool_postgres::{Manager, Pool};
use scratch_postgres::{Server, Source};
use tokio_postgres::{Client, NoTls};
use tonic_idempotency::{
    migrations,
    store::{PostgresStore, ResourceTypes, Schema},
};

use crate::{Error, worker::AT_ONCE};

/// The role of the workers: the layer refuses a superuser, to which row-level security does not apply.
const ROLE: &str = "billing";

/// The application's own migration. No constraint would stop a second charge of an order.
const CHARGES: &str = "
    CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY, order_id text NOT NULL, cents bigint NOT NULL);
    CREATE ROLE billing LOGIN PASSWORD 'billing';
    GRANT SELECT, INSERT ON charges TO billing";

/// A private server with the tables of the application and of the layer. It is removed when this is dropped.
pub(crate) struct Database {
    server: Server,
    owner: Client,
}

impl Database {
    pub(crate) async fn start() -> Result<Self, Error> {
        let server = Server::start(&[Source::Installed, Source::Container]).await?;
        let (mut owner, connection) = tokio_postgres::connect(server.url(), NoTls).await?;
        tokio::spawn(connection);
        owner.batch_execute(CHARGES).await?;
        migrations::run(&mut owner, &Schema::default()).await?;
        migrations::grant(&owner, &Schema::default(), ROLE).await?;
        Ok(Self { server, owner })
    }

    /// Returns the URL of the workers.
    pub(crate) fn url(&self) -> String {
        let (_, host) = self.server.url().split_once('@').unwrap_or_default();
        format!("postgres://{ROLE}:{ROLE}@{host}")
    }

    /// Returns how many orders have been charged once, and how many more often.
    pub(crate) async fn charged(&self) -> Result<[i64; 2], Error> {
        let count = "SELECT count(*) FILTER (WHERE times = 1), count(*) FILTER (WHERE times > 1) \
                     FROM (SELECT count(*) AS times FROM charges GROUP BY order_id) AS orders";
        let row = self.owner.query_one(count, &[]).await?;
        Ok([row.try_get(0)?, row.try_get(1)?])
    }
}

/// Returns the store of a worker.
pub(crate) async fn store(url: &str) -> Result<PostgresStore, Error> {
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(AT_ONCE).build()?;
    let store = PostgresStore::new(pool, ResourceTypes::none());
    store.verify().await?; // says what is wrong with the database
    Ok(store)
}
