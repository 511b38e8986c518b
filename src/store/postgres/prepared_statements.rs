//! Finds out which connections keep prepared statements, and forgets stale ones.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use deadpool_postgres::{ClientWrapper, StatementCache};
use tokio_postgres::{Error, SimpleQueryMessage, types::Type};

use super::process_id::process_id;
use crate::store::driver::DriverError;

/// Whether a [`PostgresStore`](super::PostgresStore) prepares its statements, once for each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreparedStatements {
    /// Whatever is in front of the server. For a pooler that gives a connection to one client until that disconnects, as PgBouncer does
    /// in session mode; elsewhere a client may execute another client's statement.
    Always,
    /// The server parses and plans the statements each time. For a pooler in statement mode, which has no transactions, and for one that
    /// passes the process ids of its own connections on.
    Never,
    /// On connections that lead to the server itself, and through poolers that track prepared statements, as PgBouncer does from
    /// version 1.21 on with `max_prepared_statements`.
    #[default]
    WhereKept,
}

/// The text of the statement that is prepared in order to see what a pooler does with it.
const PROBE: &str = "SELECT 1 AS idempotency_probe";

/// Whether a pooler has given the probe another name than tokio-postgres.
const IS_RENAMED: &str = "SELECT coalesce(pg_catalog.bool_and(name OPERATOR(pg_catalog.!~) '^s[0-9]+$'), false) \
                          FROM pg_catalog.pg_prepared_statements WHERE statement OPERATOR(pg_catalog.=) $1";

/// The server process, and whether no transaction was open before: then both times are those of this statement, if it is sent by the
/// protocol of simple queries.
const LOOK: &str = "SELECT pg_catalog.pg_backend_pid(), \
                    pg_catalog.now() OPERATOR(pg_catalog.=) pg_catalog.statement_timestamp()";

/// The setting of a pool's connections, and what was found out about them. Clones share that.
#[derive(Clone, Debug, Default)]
pub(super) struct Preparation {
    setting: PreparedStatements,
    found: Arc<PreparationState>,
}

#[derive(Debug, Default)]
struct PreparationState {
    /// The connections that keep prepared statements, by the addresses of their caches.
    kept: Mutex<HashMap<usize, Weak<StatementCache>>>,
    /// Whether one of them leads through a pooler.
    is_pooled: AtomicBool,
    /// Whether a connection has not kept them.
    is_given_up: AtomicBool,
}

impl Preparation {
    pub(super) fn new(setting: PreparedStatements) -> Self {
        Self { setting, found: Arc::default() }
    }

    pub(super) fn setting(&self) -> PreparedStatements {
        self.setting
    }

    /// Returns whether a statement may be prepared on this connection. The first time for a connection it asks the server.
    ///
    /// `is_probed` is true while the connection must not go to another client.
    pub(super) async fn is_safe_on(&self, connection: &ClientWrapper, is_probed: &AtomicBool) -> Result<bool, Error> {
        match self.setting {
            PreparedStatements::Always => return Ok(true),
            PreparedStatements::Never => return Ok(false),
            PreparedStatements::WhereKept => {}
        }
        if self.is_given_up() {
            return Ok(false);
        }
        if self.found.keeps(connection) {
            return Ok(true);
        }
        let Look { is_the_servers_own, is_idle } = Look::at(connection).await?;
        if !is_the_servers_own {
            if !is_idle {
                // The statement will find that, too, and fail.
                return Ok(false);
            }
            self.found.is_pooled.store(true, Ordering::Relaxed);
            is_probed.store(true, Ordering::Relaxed);
            let is_tracked = is_tracked(connection).await?;
            is_probed.store(false, Ordering::Relaxed);
            if !is_tracked {
                self.give_up();
                return Ok(false);
            }
        }
        self.found.note(connection);
        Ok(true)
    }

    /// Returns whether a connection leads through a pooler that does not track prepared statements, as PgBouncer before version 1.21.
    pub(super) fn is_given_up(&self) -> bool {
        self.found.is_given_up.load(Ordering::Relaxed)
    }

    /// Returns whether this is the error of a statement that was not carried out, because it is not prepared as it should be. Behind a
    /// pooler none is prepared from then on.
    pub(super) fn is_stale(&self, error: &DriverError) -> bool {
        let is_foreign = matches!(error.code(), Some("26000" | "42P05"));
        if self.setting == PreparedStatements::Never || !(is_foreign || error.is_stale()) {
            return false;
        }
        let found = &self.found;
        if is_foreign && self.setting == PreparedStatements::WhereKept && found.is_pooled.load(Ordering::Relaxed) {
            self.give_up();
        }
        true
    }

    fn give_up(&self) {
        if !self.found.is_given_up.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "a pooler does not keep prepared statements; the store's statements are parsed each time from now on"
            );
        }
    }
}

impl PreparationState {
    fn keeps(&self, connection: &ClientWrapper) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&address(connection))
    }

    fn note(&self, connection: &ClientWrapper) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // An address is not used again before its last reference has gone.
        kept.retain(|_, cache| cache.strong_count() > 0);
        kept.insert(address(connection), Arc::downgrade(&connection.statement_cache));
    }
}

fn address(connection: &ClientWrapper) -> usize {
    Arc::as_ptr(&connection.statement_cache).addr()
}

/// The findings about a new connection.
struct Look {
    /// Whether the server process is the one of the login: a pooler answers a login with an id of its own.
    is_the_servers_own: bool,
    /// Whether no transaction is open.
    is_idle: bool,
}

impl Look {
    async fn at(connection: &ClientWrapper) -> Result<Self, Error> {
        let answers = connection.simple_query(LOOK).await?;
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let column = |index| row.and_then(|row| row.try_get(index).ok().flatten());
        let login = process_id(&connection.cancel_token()).await.map(|id| id.to_string());
        Ok(Self {
            is_the_servers_own: login.is_some() && column(0) == login.as_deref(),
            is_idle: column(1) == Some("t"),
        })
    }
}

/// Returns whether the pooler gives prepared statements names of its own, so that each client finds its own on every server connection.
async fn is_tracked(connection: &ClientWrapper) -> Result<bool, Error> {
    // The same server connection to the end.
    connection.batch_execute("BEGIN").await?;
    let renamed = is_renamed(connection).await;
    connection.batch_execute("ROLLBACK").await?;
    match renamed {
        // Another client's statement has this name.
        Err(error) if error.as_db_error().is_some() => Ok(false),
        renamed => renamed,
    }
}

async fn is_renamed(connection: &ClientWrapper) -> Result<bool, Error> {
    // Dropped, and thereby deallocated, before the ROLLBACK is sent.
    let _probe = connection.prepare(PROBE).await?;
    connection.query_typed_one(IS_RENAMED, &[(&PROBE, Type::TEXT)]).await?.try_get(0)
}
