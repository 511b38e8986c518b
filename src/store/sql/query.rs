//! Statements that are operations of their own.

use tokio::time::Instant;

use super::{
    connection::Connections,
    driver::{Connection, Driver, Statement, Value},
    operation::Operation,
};
use crate::store::{StoreError, StoreErrorKind};

/// A row of a driver.
pub(super) type RowOf<D> = <<D as Driver>::Connection as Connection>::Row;

impl<D: Driver> Connections<D> {
    /// Returns the only row of a statement. The statement has to be idempotent: it may be run more than once, and twice at
    /// the same time.
    pub(super) async fn query_one(&self, sql: &str, parameters: &[Value<'_>]) -> Result<RowOf<D>, StoreError> {
        self.query_one_until(self.deadline(), sql, parameters).await
    }

    /// As [`query_one`](Self::query_one), with a deadline of its own.
    pub(super) async fn query_one_until(
        &self,
        deadline: Instant,
        sql: &str,
        parameters: &[Value<'_>],
    ) -> Result<RowOf<D>, StoreError> {
        only_row(self.ask(Operation::until(self, deadline), Statement { sql, parameters }).await?)
    }

    /// Returns the rows of a statement that may take long: it is repeated only if its answer is lost.
    pub(super) async fn query_long(&self, sql: &str, parameters: &[Value<'_>]) -> Result<Vec<RowOf<D>>, StoreError> {
        self.ask(Operation::new(self).one_at_a_time(), Statement { sql, parameters }).await
    }

    async fn ask(&self, operation: Operation<'_, D>, statement: Statement<'_>) -> Result<Vec<RowOf<D>>, StoreError> {
        let operation = &operation;
        operation.run(|attempt| operation.query(attempt, statement), |_| true).await
    }
}

pub(super) fn only_row<R>(rows: Vec<R>) -> Result<R, StoreError> {
    match <[R; 1]>::try_from(rows) {
        Ok([row]) => Ok(row),
        Err(rows) => Err(StoreError::new(StoreErrorKind::Corrupt, format!("expected one row, got {}", rows.len()))),
    }
}
