//! The driver for sqlx, and the store on it.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres, Row as _, pool::PoolConnection,
};
use tonic_idempotency::store::{
    SqlStore,
    driver::{AcquireError, ConnectionPool, Driver, DriverError, Exclusive, IdleClosing},
};

use crate::{
    connection::SqlxConnection,
    error::{acquire_error, explained},
    transaction_error::is_conflict,
};

/// The store on sqlx.
pub type SqlxStore = SqlStore<Sqlx>;

/// The driver for sqlx, on a [`PgPool`].
///
/// ```no_run
/// use std::time::Duration;
/// use sqlx::PgPool;
/// use tonic_idempotency::store::ResourceTypes;
/// use tonic_idempotency_sqlx::{Sqlx, SqlxStore};
///
/// # async fn make() -> Result<(), sqlx::Error> {
/// let pool = PgPool::connect("postgres://my_api@localhost/my_app").await?;
///
/// // Default.
/// let store = SqlxStore::new(pool.clone(), ResourceTypes::none());
/// // Customised: the pool has a hook that sets a connection up each time.
/// let hooked = SqlxStore::new(Sqlx::from(pool).run_before_acquire(), ResourceTypes::none()).timeout(Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sqlx {
    pool: PgPool,
    before_acquire: bool,
    has_statement_cache: bool,
    shared: Arc<Shared>,
}

/// The shared state of a driver's clones.
#[derive(Default)]
struct Shared {
    /// How many tasks wait for a connection that is being made.
    connecting: AtomicUsize,
    idle_closing: IdleClosing,
}

impl Sqlx {
    /// Takes connections as [`PgPool::acquire`] does: with the pool's `before_acquire` hook, and its ping before each use, a
    /// round trip. Defaults to off: an idle connection is taken as it is. `BEGIN`, or the claim, finds out whether it still
    /// lives, and the store replaces it if not. New connections run `after_connect` in either case.
    pub fn run_before_acquire(self) -> Self {
        Self { before_acquire: true, ..self }
    }

    fn connection(&self, connection: PoolConnection<Postgres>) -> SqlxConnection {
        SqlxConnection::new(connection, self.pool.clone(), self.has_statement_cache)
    }

    /// Closes the connections that are idle. Returns how many.
    fn close_idle(&self) -> usize {
        // No more than there are: others may come back meanwhile.
        let idle = (0..self.pool.num_idle()).map_while(|_| self.pool.try_acquire());
        idle.map(|connection| drop(connection.detach())).count()
    }
}

impl From<PgPool> for Sqlx {
    fn from(pool: PgPool) -> Self {
        // There is no getter.
        let url = pool.connect_options().to_url_lossy();
        let capacity = url.query_pairs().find(|(name, _)| name == "statement-cache-capacity");
        let has_statement_cache = capacity.is_none_or(|(_, capacity)| capacity != "0");
        Self { pool, before_acquire: false, has_statement_cache, shared: Arc::default() }
    }
}

/// For [`Transaction::begin`](crate::Transaction::begin).
impl From<&PgPool> for Sqlx {
    fn from(pool: &PgPool) -> Self {
        pool.clone().into()
    }
}

impl Driver for Sqlx {
    type Session = Exclusive<Self>;

    fn is_conflict(error: &(dyn Error + 'static)) -> bool {
        is_conflict(error)
    }

    fn with_settings_of(self, other: &Self) -> Self {
        Self { before_acquire: other.before_acquire, ..self }
    }
}

impl ConnectionPool for Sqlx {
    type Connection = SqlxConnection;

    async fn acquire(&self) -> Result<SqlxConnection, AcquireError> {
        if !self.before_acquire
            && let Some(connection) = self.pool.try_acquire()
        {
            return Ok(self.connection(connection));
        }
        let _connecting =
            (self.pool.size() < self.pool.options().get_max_connections()).then(|| ConnectingTask::new(self));
        self.pool.acquire().await.map(|connection| self.connection(connection)).map_err(acquire_error)
    }

    fn max_connections(&self) -> usize {
        usize::try_from(self.pool.options().get_max_connections()).unwrap_or(usize::MAX)
    }

    fn has_idle(&self) -> bool {
        self.pool.num_idle() > 0
    }

    /// The pool counts a connection that is being made, for as long as it takes.
    fn is_exhausted(&self) -> bool {
        self.pool.size() >= self.pool.options().get_max_connections()
            && self.pool.num_idle() == 0
            && self.shared.connecting.load(Ordering::Relaxed) == 0
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        let asked = async {
            let mut connection = PgConnection::connect_with(&self.pool.connect_options()).await?;
            sqlx::raw_sql(AssertSqlSafe(begin.to_owned())).execute(&mut connection).await?;
            let text = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await?.try_get(0)?;
            sqlx::raw_sql("ROLLBACK").execute(&mut connection).await?;
            connection.close().await?;
            Ok(text)
        };
        asked.await.map_err(explained)
    }

    /// The pool does not tell when a connection was last used: it closes all that are idle, but not twice for one time.
    fn distrust(&self, since: Instant) -> usize {
        self.shared.idle_closing.since(since, || self.close_idle())
    }

    fn forget_if_stale(&self, error: &DriverError) -> bool {
        let stale = self.has_statement_cache && error.is_stale();
        if stale {
            self.close_idle();
        }
        stale
    }
}

impl fmt::Debug for Sqlx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlx")
            .field("before_acquire", &self.before_acquire)
            .field("has_statement_cache", &self.has_statement_cache)
            .finish_non_exhaustive()
    }
}

/// Counts a task that waits for a connection to be made.
struct ConnectingTask<'a>(&'a Shared);

impl<'a> ConnectingTask<'a> {
    fn new(driver: &'a Sqlx) -> Self {
        driver.shared.connecting.fetch_add(1, Ordering::Relaxed);
        Self(&driver.shared)
    }
}

impl Drop for ConnectingTask<'_> {
    fn drop(&mut self) {
        self.0.connecting.fetch_sub(1, Ordering::Relaxed);
    }
}
