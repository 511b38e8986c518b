//! Connections from a pool, and the settings of the operations on them.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{parked_connections::ParkedConnections, reconnection::Reconnection};
use crate::{
    store::{
        ResourceTypes, STATUS_TIMEOUT, Schema, ServerClock,
        sql::{
            answers::{Contact, Fault, LateClaims},
            driver::{AcquireError, ConnectionPool, DriverError},
            statements::Sql,
        },
    },
    telemetry::Chain,
};

/// The limits of a timeout. An operation without time would always fail; no caller waits longer, and a deadline must not
/// overflow.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(60 * 60)];

const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time after which a further attempt is made beside one that has not answered.
const MAX_SHARE: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(in crate::store::sql) struct Connections<D: ConnectionPool> {
    driver: D,
    sql: Arc<Sql>,
    clock: Arc<ServerClock>,
    late_claims: Arc<LateClaims>,
    parked: Arc<ParkedConnections>,
    /// That of all pools: they lead to one server.
    contact: Arc<Contact>,
    reconnection: Arc<Reconnection>,
    timeout: Duration,
    status_timeout: Duration,
    /// How many statuses may be overdue at once: each keeps a connection from the others.
    overdue_statuses: Arc<Semaphore>,
}

impl<D: ConnectionPool> Connections<D> {
    pub(in crate::store::sql) fn new(driver: D, resource_types: Arc<ResourceTypes>) -> Self {
        let overdue_statuses = Arc::new(Semaphore::new(quarter(&driver)));
        let sql = Arc::new(Sql::new(Schema::default(), resource_types));
        Self {
            driver,
            sql,
            clock: Arc::default(),
            late_claims: Arc::default(),
            parked: Arc::default(),
            contact: Arc::default(),
            reconnection: Arc::default(),
            timeout: TIMEOUT,
            status_timeout: STATUS_TIMEOUT,
            overdue_statuses,
        }
    }

    /// Changes the driver's settings.
    #[cfg(feature = "postgres")]
    pub(in crate::store::sql) fn with_driver(self, change: impl FnOnce(D) -> D) -> Self {
        Self { driver: change(self.driver), ..self }
    }

    pub(in crate::store::sql) fn schema(self, schema: Schema) -> Self {
        Self { sql: Arc::new(self.sql.with_schema(schema)), ..self }
    }

    pub(in crate::store::sql) fn common_path(self, is_on: bool) -> Self {
        Self { sql: Arc::new(self.sql.with_common_path(is_on)), ..self }
    }

    pub(in crate::store::sql) fn timeout(self, timeout: Duration) -> Self {
        let [shortest, longest] = TIMEOUTS;
        Self { timeout: timeout.clamp(shortest, longest), ..self }
    }

    pub(in crate::store::sql) fn status_timeout(self, timeout: Duration) -> Self {
        Self { status_timeout: timeout, ..self }
    }

    /// Returns the same settings for another pool, whose parked connections and turns these are.
    pub(in crate::store::sql) fn of(
        &self,
        driver: D,
        parked: Arc<ParkedConnections>,
        reconnection: Arc<Reconnection>,
    ) -> Self {
        Self { driver, parked, reconnection, ..self.clone() }
    }

    pub(in crate::store::sql) fn driver(&self) -> &D {
        &self.driver
    }

    /// Takes a connection out of the pool, or makes one: one caller at a time while the last one was lost or could not be made.
    pub(in crate::store::sql) async fn acquire(&self) -> Result<D::Connection, AcquireError> {
        self.reconnection.acquire(&self.driver, || self.contact_is_lost()).await
    }

    pub(in crate::store::sql) fn contact(&self) -> &Arc<Contact> {
        &self.contact
    }

    /// Returns whether no operation of the process has had an answer for one timeout since the first failure.
    pub(in crate::store::sql) fn contact_is_lost(&self) -> bool {
        self.contact.is_lost(self.timeout)
    }

    /// Notes that an attempt has had no answer, or no connection.
    pub(in crate::store::sql) fn fails(&self) {
        self.contact.fails(self.timeout);
    }

    pub(in crate::store::sql) fn sql(&self) -> &Sql {
        &self.sql
    }

    pub(in crate::store::sql) fn clock(&self) -> &ServerClock {
        &self.clock
    }

    pub(in crate::store::sql) fn late_claims(&self) -> &LateClaims {
        &self.late_claims
    }

    pub(in crate::store::sql) fn parked(&self) -> &Arc<ParkedConnections> {
        &self.parked
    }

    /// Returns the deadline of an operation that begins now.
    pub(in crate::store::sql) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Returns how long an operation may take.
    pub(in crate::store::sql) fn timeout_of_operations(&self) -> Duration {
        self.timeout
    }

    /// Returns the time that a batch has.
    pub(in crate::store::sql) fn share(&self) -> Duration {
        share_of(self.timeout)
    }

    /// Returns how long a claim waits for the status before it is sent again without it; `None` if it is to be sent
    /// without it at once, because too many statuses are overdue.
    pub(in crate::store::sql) fn time_for_status(&self) -> Option<Duration> {
        (self.overdue_statuses.available_permits() > 0).then_some(self.status_timeout)
    }

    /// Returns whether the pool has more than one connection.
    pub(in crate::store::sql) fn are_several(&self) -> bool {
        self.driver.max_connections() > 1
    }

    /// Counts a status as overdue until the permit is dropped.
    pub(in crate::store::sql) fn status_is_overdue(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.overdue_statuses).try_acquire_owned().ok()
    }

    /// Forgets the prepared statements of all connections if the statement was stale. Returns whether it was.
    pub(in crate::store::sql) fn forget_if_stale(&self, error: &DriverError) -> bool {
        let stale = self.driver.forget_if_stale(error);
        if stale {
            tracing::info!(error = %Chain(error), "prepared statements are stale; trying again");
        }
        stale
    }

    /// Classifies the error of the last statement on this connection, which is asked once more if need be, for at most a share.
    pub(in crate::store::sql) async fn fault_of(&self, error: &DriverError, connection: &mut D::Connection) -> Fault {
        Fault::of_statement(error, connection, Instant::now() + self.share()).await
    }

    /// Notes the fault of a statement that was sent at `since`. Idle connections that may have the same fault are closed.
    pub(in crate::store::sql) fn note(&self, fault: Fault, since: std::time::Instant) {
        if fault.may_be_shared() {
            self.distrust(since);
        }
        if fault == Fault::Lost {
            self.reconnection.loses();
            self.fails();
        } else {
            self.contact.answers();
        }
    }

    /// Closes the idle connections that were last used before this time: they may have been lost with another.
    pub(in crate::store::sql) fn distrust(&self, since: std::time::Instant) {
        let closed = self.driver.distrust(since);
        if closed > 0 {
            tracing::info!(connections = closed, "closed idle connections, because another was lost or silent");
        }
    }

    /// Returns whether all connections that the pool may have are in use.
    pub(in crate::store::sql) fn are_exhausted(&self) -> bool {
        self.driver.is_exhausted()
    }

    /// Returns whether the last connection was lost, or could not be made: then one that the pool counts may be in the making.
    pub(in crate::store::sql) fn fail_to_be_made(&self) -> bool {
        self.reconnection.has_failed()
    }
}

impl<D: ConnectionPool> fmt::Debug for Connections<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("driver", &self.driver)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Returns the share of an operation's time after which a further attempt is made beside one that has not answered.
pub(in crate::store::sql) fn share_of(time: Duration) -> Duration {
    (time / 4).min(MAX_SHARE)
}

/// Returns a quarter of a pool's connections, at least one.
pub(super) fn quarter(driver: &impl ConnectionPool) -> usize {
    (driver.max_connections() / 4).max(1)
}
