//! The client's side of a connection: [`Connection`].

use std::{fmt, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::timeout,
};
use tonic_idempotency::store::driver::{self, DriverError, Row as _, Statement, Value};
use uuid::Uuid;

use super::{pool::Pool, row::Row, session::Request, statement::Sent, wire::Wire};

/// The longest time that the cancellation of a statement may take.
const CANCELLATION: Duration = Duration::from_secs(5);

/// A connection of a [`Pool`].
pub struct Connection {
    pool: Pool,
    /// `None` once it is closed or given back.
    wire: Option<Wire>,
    /// Its place in the pool; `None` for one that does not belong to it.
    place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    pub(super) fn new(pool: Pool, wire: Wire, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { pool, wire: Some(wire), place }
    }

    /// Inserts an effect in the transaction of the call.
    ///
    /// # Errors
    ///
    /// [`DriverError`] if it fails.
    pub async fn insert_effect(&mut self, owner: Uuid, key: Uuid, call: u64) -> Result<(), DriverError> {
        self.send(vec![Sent::effect(owner, key, call, false)]).await.map(drop)
    }

    /// As [`insert_effect`](Self::insert_effect), if no other call has this number.
    ///
    /// # Errors
    ///
    /// [`DriverError`] if it fails.
    pub async fn insert_unique_effect(&mut self, owner: Uuid, key: Uuid, call: u64) -> Result<(), DriverError> {
        self.send(vec![Sent::effect(owner, key, call, true)]).await.map(drop)
    }

    /// Sends statements in one round trip, and returns the rows of each.
    pub(super) async fn send(&mut self, statements: Vec<Sent>) -> Result<Vec<Vec<Row>>, DriverError> {
        let process = self.pool.process().clone();
        process.gate().await;
        let wire = self.wire.as_mut().expect("only `close` and `drop` take it out");
        // The errors of statements that were given up are nothing to this one.
        while !wire.unanswered.is_empty() {
            wire.receive().await.map(drop)?;
        }
        process.gate().await;
        let (answer, receiver) = oneshot::channel();
        // If the session has ended, the receiver says so.
        let _ = wire.requests.send(Request { statements, answer });
        wire.unanswered.push_back(receiver);
        let answer = wire.receive().await;
        process.gate().await;
        wire.used = std::time::Instant::now();
        let answer = answer?.map_err(DriverError::from);
        answer.inspect_err(|error| wire.is_in_conflict |= error.is_conflict())
    }

    /// Sends statements together, or one after the other.
    async fn send_all(&mut self, statements: Vec<Sent>) -> Result<Vec<Vec<Row>>, DriverError> {
        if self.pool.sends_together() {
            return self.send(statements).await;
        }
        let mut rows = Vec::new();
        for statement in statements {
            rows.extend(self.send(vec![statement]).await?);
        }
        Ok(rows)
    }

    fn wire(&self) -> &Wire {
        self.wire.as_ref().expect("only `close` and `drop` take it out")
    }
}

impl driver::Connection for Connection {
    type Row = Row;

    async fn execute(&mut self, sql: &str) -> Result<(), DriverError> {
        self.send(vec![Sent::simple(sql)]).await.map(drop)
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, DriverError> {
        let sent = Sent::query(statement);
        Ok(self.send(vec![sent]).await?.pop().unwrap_or_default())
    }

    async fn begin(
        &mut self,
        begin: &str,
        first: Statement<'_>,
        savepoint: Option<&str>,
    ) -> Result<Vec<Row>, DriverError> {
        let statements = [Sent::simple(begin), Sent::query(first)].into_iter().chain(savepoint.map(Sent::simple));
        if let Some(wire) = &mut self.wire {
            (wire.begun, wire.is_in_conflict) = (None, false);
        }
        let rows = self.send_all(statements.collect()).await?.swap_remove(1);
        if let (Some(wire), Some(Ok(Value::Double(begun)))) =
            (&mut self.wire, rows.first().map(|row| row.value("begun")))
        {
            wire.begun = begun;
        }
        Ok(rows)
    }

    async fn commit(&mut self, roll_back: Option<&str>, record: Option<Statement<'_>>) -> Result<(), DriverError> {
        // A savepoint fails in a transaction that has failed, and outside of one.
        let record = record.map_or_else(|| Sent::simple("SAVEPOINT idempotency_end"), Sent::query);
        let statements = roll_back.map(Sent::simple).into_iter().chain([record, Sent::simple("COMMIT")]);
        self.send_all(statements.collect()).await.map(drop)
    }

    async fn cancel(&self) {
        let Some(begun) = self.wire().begun else { return };
        let asked = async {
            self.pool.process().gate().await;
            if self.pool.link().carry().await.is_ok() {
                self.pool.database().cancel(self.wire().session, begun);
            }
        };
        // It need not succeed.
        let _ = timeout(CANCELLATION, asked).await;
    }

    fn is_in_conflict(&mut self) -> bool {
        self.wire().is_in_conflict
    }

    fn is_closed(&self) -> bool {
        self.wire().has_ended()
    }

    fn close(mut self) {
        self.wire = None;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let (Some(wire), true) = (self.wire.take(), self.place.is_some()) {
            self.pool.give_back(wire);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("session", &self.wire.as_ref().map(|wire| wire.session))
            .finish_non_exhaustive()
    }
}
