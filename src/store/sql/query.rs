//! Statements that are operations of their own.

use tokio::time::Instant;
use tokio_postgres::Row;

use super::{connection::Connections, operation::Operation, statement::Parameters};
use crate::store::{StoreError, StoreErrorKind};

impl Connections {
    /// Returns the only row of a statement. The statement has to be idempotent: it may be run more than once, and twice at
    /// the same time.
    pub(super) async fn query_one(&self, statement: &str, parameters: Parameters<'_>) -> Result<Row, StoreError> {
        self.query_one_until(self.deadline(), statement, parameters).await
    }

    /// As [`query_one`](Self::query_one), with a deadline of its own.
    pub(super) async fn query_one_until(
        &self,
        deadline: Instant,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> Result<Row, StoreError> {
        only_row(self.ask(Operation::until(self, deadline), statement, parameters).await?)
    }

    /// Returns the rows of a statement that may take long: it is repeated only if its answer is lost.
    pub(super) async fn query_long(&self, statement: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, StoreError> {
        self.ask(Operation::new(self).one_at_a_time(), statement, parameters).await
    }

    async fn ask(
        &self,
        operation: Operation<'_>,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let operation = &operation;
        operation.run(|attempt| operation.query(attempt, statement, parameters), |_| true).await
    }
}

pub(super) fn only_row(rows: Vec<Row>) -> Result<Row, StoreError> {
    match <[Row; 1]>::try_from(rows) {
        Ok([row]) => Ok(row),
        Err(rows) => Err(StoreError::new(StoreErrorKind::Corrupt, format!("expected one row, got {}", rows.len()))),
    }
}
