//! The driver for diesel-async, and the store on it.

use std::{error::Error, fmt, sync::Arc, time::Instant};

use diesel_async::AsyncPgConnection;
#[cfg(feature = "bb8")]
use diesel_async::pooled_connection::bb8;
#[cfg(feature = "deadpool")]
use diesel_async::pooled_connection::deadpool;
use tonic_idempotency::store::{
    SqlStore,
    driver::{AcquireError, ConnectionPool, Driver, DriverError, Exclusive},
};

use crate::{
    connection::{DieselConnection, Generation},
    pool::Pool,
    transaction_error::is_conflict,
};

/// The store on diesel-async.
pub type DieselStore = SqlStore<Diesel>;

/// The driver for diesel-async, on a pool of [deadpool] or [bb8] (the features `deadpool`, a default, and `bb8`).
///
/// ```no_run
/// # #[cfg(feature = "deadpool")]
/// # fn make() -> Result<(), Box<dyn std::error::Error>> {
/// use diesel_async::pooled_connection::{AsyncDieselConnectionManager, deadpool::Pool};
/// use std::time::Duration;
/// use tonic_idempotency::store::ResourceTypes;
/// use tonic_idempotency_diesel::DieselStore;
///
/// let pool = Pool::builder(AsyncDieselConnectionManager::new("postgres://my_api@localhost/my_app")).build()?;
///
/// // Default.
/// let store = DieselStore::new(pool.clone(), ResourceTypes::none());
/// // Customised.
/// let patient = DieselStore::new(pool, ResourceTypes::none()).timeout(Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
///
/// [bb8]: https://docs.rs/bb8
/// [deadpool]: https://docs.rs/deadpool
#[derive(Clone)]
pub struct Diesel {
    pool: Pool,
    generation: Arc<Generation>,
}

#[cfg(feature = "bb8")]
impl From<bb8::Pool<AsyncPgConnection>> for Diesel {
    fn from(pool: bb8::Pool<AsyncPgConnection>) -> Self {
        Self { pool: Pool::Bb8(pool, Arc::default()), generation: Arc::default() }
    }
}

#[cfg(feature = "deadpool")]
impl From<deadpool::Pool<AsyncPgConnection>> for Diesel {
    fn from(pool: deadpool::Pool<AsyncPgConnection>) -> Self {
        Self { pool: Pool::Deadpool(pool), generation: Arc::default() }
    }
}

impl Driver for Diesel {
    type Session = Exclusive<Self>;

    fn is_conflict(error: &(dyn Error + 'static)) -> bool {
        is_conflict(error)
    }

    fn reads_messages(&self) -> bool {
        true
    }
}

impl ConnectionPool for Diesel {
    type Connection = DieselConnection;

    async fn acquire(&self) -> Result<DieselConnection, AcquireError> {
        Ok(DieselConnection::new(self.pool.get().await?, &self.generation))
    }

    fn max_connections(&self) -> usize {
        self.pool.max_connections()
    }

    fn has_idle(&self) -> bool {
        self.pool.has_idle()
    }

    fn is_exhausted(&self) -> bool {
        self.pool.is_exhausted()
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        self.pool.ask_apart(begin, sql).await
    }

    fn distrust(&self, since: Instant) -> usize {
        self.pool.distrust(since)
    }

    /// The connection has seen to it that the next statement is prepared again.
    fn forget_if_stale(&self, error: &DriverError) -> bool {
        error.is_stale()
    }
}

impl fmt::Debug for Diesel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diesel").finish_non_exhaustive()
    }
}
