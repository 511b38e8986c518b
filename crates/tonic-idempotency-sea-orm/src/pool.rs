//! The pool of a [`DatabaseConnection`].

use std::time::Instant;

use sea_orm::{DatabaseConnection, DatabaseConnectionType};
use tonic_idempotency::store::driver::{AcquireError, ConnectionPool, DriverError};
use tonic_idempotency_sqlx::{Sqlx, SqlxConnection};

/// The driver for sea-orm: the one for sqlx, on the pool of a [`DatabaseConnection`].
///
/// ```no_run
/// use std::time::Duration;
/// use sea_orm::Database;
/// use tonic_idempotency::store::ResourceTypes;
/// use tonic_idempotency_sea_orm::{SeaOrm, SeaOrmStore};
///
/// # async fn make() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Database::connect("postgres://my_api@localhost/my_app").await?;
///
/// // Default.
/// let store = SeaOrmStore::new(SeaOrm::new(&database)?, ResourceTypes::none());
/// // Customised: the pool has a hook that sets a connection up each time.
/// let hooked = SeaOrm::new(&database)?.run_before_acquire();
/// let hooked = SeaOrmStore::new(hooked, ResourceTypes::none()).timeout(Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
///
/// It shares the pool with the application. Closing any clone of the `DatabaseConnection` closes the pool for all: the store
/// cannot be asked from then on. If the application replaces its `DatabaseConnection`, the store keeps the old pool.
#[derive(Clone, Debug)]
pub struct SeaOrm {
    pub(crate) sqlx: Sqlx,
}

impl SeaOrm {
    /// Takes the pool of a connection.
    ///
    /// # Errors
    ///
    /// [`NotPostgres`] if the connection is not a pool of connections to PostgreSQL: one to another database, a mock, a proxy, or
    /// none.
    pub fn new(database: &DatabaseConnection) -> Result<Self, NotPostgres> {
        match &database.inner {
            DatabaseConnectionType::SqlxPostgresPoolConnection(_) => {
                Ok(Self { sqlx: database.get_postgres_connection_pool().clone().into() })
            }
            other => Err(NotPostgres { connection: format!("{other:?}") }),
        }
    }

    /// Takes connections with the hook `map_sqlx_postgres_before_acquire` of sea-orm's `ConnectOptions`, and with sqlx's ping, a round
    /// trip; see [`Sqlx::run_before_acquire`]. Defaults to off.
    pub fn run_before_acquire(self) -> Self {
        Self { sqlx: self.sqlx.run_before_acquire() }
    }
}

impl ConnectionPool for SeaOrm {
    type Connection = SqlxConnection;

    async fn acquire(&self) -> Result<SqlxConnection, AcquireError> {
        self.sqlx.acquire().await
    }

    fn max_connections(&self) -> usize {
        self.sqlx.max_connections()
    }

    fn has_idle(&self) -> bool {
        self.sqlx.has_idle()
    }

    fn is_exhausted(&self) -> bool {
        self.sqlx.is_exhausted()
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        self.sqlx.ask_apart(begin, sql).await
    }

    fn distrust(&self, since: Instant) -> usize {
        self.sqlx.distrust(since)
    }

    fn forget_if_stale(&self, error: &DriverError) -> bool {
        self.sqlx.forget_if_stale(error)
    }
}

/// The error of a [`DatabaseConnection`] that is not a pool of connections to PostgreSQL.
#[derive(thiserror::Error)]
#[error("the store needs a DatabaseConnection to PostgreSQL, and this one is: {connection}")]
pub struct NotPostgres {
    /// The name of sea-orm's variant.
    connection: String,
}

tonic_idempotency::store::debug_tells!(NotPostgres);
