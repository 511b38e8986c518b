//! A database for the tests.

use deadpool_postgres::{Manager, Pool};
use tokio_postgres::{Config, NoTls};
use tonic_idempotency::{migrations, store::Schema};

/// A database with the tables of the layer and of the service.
pub(crate) async fn database(url: &str) -> Pool {
    let config: Config = url.parse().expect("a URL of PostgreSQL");
    let (mut owner, connection) = config.connect(NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    migrations::run(&mut owner, &Schema::default()).await.expect("the tables of the layer");
    let orders = "CREATE TABLE IF NOT EXISTS orders (
                      id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                      item text NOT NULL UNIQUE
                  )";
    owner.batch_execute(orders).await.expect("the table of the service");
    Pool::builder(Manager::new(config, NoTls)).build().expect("a pool")
}
