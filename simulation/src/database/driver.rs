//! The driver on a [`Pool`].

use std::{
    error::Error,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tokio::{sync::OwnedSemaphorePermit, time::timeout};
use tonic_idempotency::store::driver::{
    AcquireError, AcquireErrorKind, ConnectionPool, Driver, DriverError, Exclusive,
};

use super::{
    connection::Connection,
    pool::{PATIENCE, Pool, Shared},
    server::Database,
    statement::Action,
};
use crate::world::{Cut, Link, Process};

impl Database {
    /// Connects a process, apart from its pools.
    ///
    /// # Errors
    ///
    /// [`DriverError`] if the server does not let it in.
    pub async fn connect(&self, process: &Process, link: &Link) -> Result<Connection, DriverError> {
        self.pool(process, link.clone(), 1).connect().await.map_err(DriverError::lost)
    }
}

impl Pool {
    /// Makes a connection that does not belong to the pool.
    async fn connect(&self) -> Result<Connection, AcquireError> {
        Ok(Connection::new(self.clone(), self.connect_wire().await?, None))
    }

    async fn cross(&self) -> Result<(), DriverError> {
        self.0.link.carry().await.map_err(|Cut| DriverError::lost("the connection was cut"))
    }
}

impl Driver for Pool {
    type Session = Exclusive<Self>;

    fn is_conflict(error: &(dyn Error + 'static)) -> bool {
        error.downcast_ref().is_some_and(DriverError::is_worth_another_run)
    }
}

impl ConnectionPool for Pool {
    type Connection = Connection;

    async fn acquire(&self) -> Result<Connection, AcquireError> {
        self.0.process.gate().await;
        let places = Arc::clone(&self.0.places);
        let place: OwnedSemaphorePermit = match timeout(PATIENCE, places.acquire_owned()).await {
            Ok(place) => place.expect("never closed"),
            Err(elapsed) => return Err(AcquireError::new(AcquireErrorKind::NoneFree, elapsed)),
        };
        loop {
            let Some(wire) = self.idle().pop() else { break };
            if !wire.has_ended() {
                return Ok(Connection::new(self.clone(), wire, Some(place)));
            }
        }
        let connecting = Connecting::new(&self.0);
        let wire = self.connect_wire().await?;
        drop(connecting);
        Ok(Connection::new(self.clone(), wire, Some(place)))
    }

    fn max_connections(&self) -> usize {
        self.0.max_connections
    }

    fn has_idle(&self) -> bool {
        !self.idle().is_empty()
    }

    fn is_exhausted(&self) -> bool {
        self.0.places.available_permits() == 0 && self.0.connecting.load(Ordering::Relaxed) == 0
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        let age = Action::age(begin, sql);
        let _connection = self.connect().await.map_err(DriverError::lost)?;
        // BEGIN, the question, ROLLBACK.
        for _ in 0..2 {
            self.cross().await?;
        }
        let running = self.0.database.running(age);
        self.cross().await?;
        self.0.process.gate().await;
        Ok(running.to_string())
    }

    fn distrust(&self, since: Instant) -> usize {
        let mut idle = self.idle();
        let before = idle.len();
        idle.retain(|wire| wire.used >= since);
        before - idle.len()
    }

    fn forget_if_stale(&self, error: &DriverError) -> bool {
        error.is_stale()
    }
}

/// Counts a task that waits for a connection to be made.
struct Connecting<'a>(&'a Shared);

impl<'a> Connecting<'a> {
    fn new(pool: &'a Shared) -> Self {
        pool.connecting.fetch_add(1, Ordering::Relaxed);
        Self(pool)
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.connecting.fetch_sub(1, Ordering::Relaxed);
    }
}
