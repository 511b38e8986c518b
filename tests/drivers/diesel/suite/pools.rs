//! Pools of diesel-async.

use std::time::Duration;

use diesel::ConnectionResult;
use diesel_async::{
    AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _,
    pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, bb8, deadpool},
};
use futures_util::FutureExt as _;
use tonic_idempotency_diesel::{Diesel, DieselStore};
use tonic_idempotency_tests::API_ROLE;

pub(crate) type Deadpool = deadpool::Pool<AsyncPgConnection>;
pub(crate) type Bb8 = bb8::Pool<AsyncPgConnection>;

/// What makes the connections of a pool, of the API's role. Each runs `setup` first.
fn manager(url: &str, setup: &str) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    let setup = format!("SET ROLE {API_ROLE}; {setup}");
    let mut config = ManagerConfig::default();
    config.custom_setup = Box::new(move |url| connect(url.to_owned(), setup.clone()).boxed());
    AsyncDieselConnectionManager::new_with_config(url, config)
}

async fn connect(url: String, setup: String) -> ConnectionResult<AsyncPgConnection> {
    let mut connection = AsyncPgConnection::establish(&url).await?;
    connection.batch_execute(&setup).await.map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    Ok(connection)
}

pub(crate) fn deadpool(url: &str, size: usize, setup: &str) -> Deadpool {
    Deadpool::builder(manager(url, setup)).max_size(size).build().expect("a pool")
}

pub(crate) fn bb8(url: &str, size: u32, setup: &str) -> Bb8 {
    Bb8::builder().max_size(size).connection_timeout(Duration::from_secs(2)).build_unchecked(manager(url, setup))
}

/// A store on this pool, with timeouts that are long enough for a busy machine.
pub(crate) fn patient(pool: impl Into<Diesel>) -> DieselStore {
    DieselStore::new(pool, organization::resource_types())
        .timeout(Duration::from_secs(60))
        .status_timeout(Duration::from_secs(60))
}
