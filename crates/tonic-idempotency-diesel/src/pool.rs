//! The pools, and their connections.

use std::{
    ops::{Deref, DerefMut},
    time::Instant,
};

#[cfg(feature = "bb8")]
use std::sync::Arc;

#[cfg(feature = "deadpool")]
use ::deadpool::managed::Manager as _;
use diesel::sql_types::Text;
#[cfg(feature = "bb8")]
use diesel_async::pooled_connection::bb8;
#[cfg(feature = "deadpool")]
use diesel_async::pooled_connection::deadpool;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
#[cfg(feature = "bb8")]
use futures_util::FutureExt as _;
#[cfg(feature = "bb8")]
use tonic_idempotency::store::driver::IdleClosing;
use tonic_idempotency::store::driver::{AcquireError, DriverError};

use crate::error;

/// A pool of the application.
#[derive(Clone)]
pub(crate) enum Pool {
    #[cfg(feature = "bb8")]
    Bb8(bb8::Pool<AsyncPgConnection>, Arc<IdleClosing>),
    #[cfg(feature = "deadpool")]
    Deadpool(deadpool::Pool<AsyncPgConnection>),
}

impl Pool {
    pub(crate) async fn get(&self) -> Result<PooledConnection, AcquireError> {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(pool, _) => pool.get_owned().await.map(PooledConnection::Bb8).map_err(error::of_bb8),
            #[cfg(feature = "deadpool")]
            Self::Deadpool(pool) => pool.get().await.map(PooledConnection::Deadpool).map_err(error::of_deadpool),
        }
    }

    pub(crate) fn max_connections(&self) -> usize {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(pool, _) => usize::try_from(pool.config().max_size).unwrap_or(usize::MAX),
            #[cfg(feature = "deadpool")]
            Self::Deadpool(pool) => pool.status().max_size,
        }
    }

    pub(crate) fn has_idle(&self) -> bool {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(pool, _) => pool.state().idle_connections > 0,
            #[cfg(feature = "deadpool")]
            Self::Deadpool(pool) => pool.status().available > 0,
        }
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(pool, _) => {
                let state = pool.state();
                state.idle_connections == 0 && state.connections >= pool.config().max_size
            }
            #[cfg(feature = "deadpool")]
            Self::Deadpool(pool) => {
                let status = pool.status();
                status.available == 0 && status.size >= status.max_size
            }
        }
    }

    /// Asks the server for a text, on a connection that is not the pool's.
    pub(crate) async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        let connection = match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(pool, _) => pool.dedicated_connection().await,
            #[cfg(feature = "deadpool")]
            Self::Deadpool(pool) => pool.manager().create().await,
        };
        let mut connection = connection.map_err(DriverError::unanswered)?;
        let asked = async {
            connection.batch_execute(begin).await?;
            let text = diesel::dsl::sql::<Text>(&format!("({sql})"));
            let text = diesel::select(text).get_result(&mut connection).await?;
            connection.batch_execute("ROLLBACK").await?;
            Ok(text)
        };
        asked.await.map_err(error::driver_error)
    }

    /// bb8 does not tell when a connection was last used: it closes those that are idle, but not twice for one time; and none if it
    /// tests each before it hands it out.
    pub(crate) fn distrust(&self, since: Instant) -> usize {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(pool, idle_closing) => {
                let at_once = || pool.get_owned().now_or_never()?.ok();
                idle_closing.since(since, || {
                    let idle = (0..pool.state().idle_connections).map_while(|_| at_once());
                    idle.map(|connection| PooledConnection::Bb8(connection).close()).count()
                })
            }
            #[cfg(feature = "deadpool")]
            Self::Deadpool(pool) => {
                pool.retain(|_, metrics| metrics.recycled.unwrap_or(metrics.created) >= since).removed.len()
            }
        }
    }
}

/// A connection of a pool, to which it returns when it is dropped.
pub(crate) enum PooledConnection {
    #[cfg(feature = "bb8")]
    Bb8(bb8::PooledConnection<'static, AsyncPgConnection>),
    #[cfg(feature = "deadpool")]
    Deadpool(deadpool::Object<AsyncPgConnection>),
}

impl PooledConnection {
    /// Closes the connection, which does not return to its pool.
    pub(crate) fn close(self) {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(mut connection) => {
                // The pool closes what is broken.
                crate::depth::status(&mut connection).set_in_error();
            }
            #[cfg(feature = "deadpool")]
            Self::Deadpool(connection) => drop(deadpool::Object::take(connection)),
        }
    }
}

impl Deref for PooledConnection {
    type Target = AsyncPgConnection;

    fn deref(&self) -> &AsyncPgConnection {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(connection) => connection,
            #[cfg(feature = "deadpool")]
            Self::Deadpool(connection) => connection,
        }
    }
}

impl DerefMut for PooledConnection {
    fn deref_mut(&mut self) -> &mut AsyncPgConnection {
        match self {
            #[cfg(feature = "bb8")]
            Self::Bb8(connection) => connection,
            #[cfg(feature = "deadpool")]
            Self::Deadpool(connection) => connection,
        }
    }
}
