//! Statements that are operations of their own.

use tokio::time::Instant;

use super::{attempt_plan::AttemptPlan, operation::StoreOperation};
use crate::store::{
    StoreError,
    sql::{
        batch::{Kind, Lane, SendMode},
        connections::{Connections, Failure},
        driver::{ConnectionPool, Statement, Value},
        statements::{RowOf, corrupt, only_row},
    },
};

impl<D: ConnectionPool> Connections<D> {
    /// Returns the only row of a statement. The statement has to be idempotent: it may be run more than once, and twice at
    /// the same time.
    pub(in crate::store::sql) async fn query_one(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
    ) -> Result<RowOf<D>, StoreError> {
        self.query_one_until(self.deadline(), sql, parameters).await
    }

    /// Returns the rows of a function that only reads: nothing has happened if its answer is lost.
    pub(in crate::store::sql) async fn read(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
    ) -> Result<Vec<RowOf<D>>, StoreError> {
        let operation = &StoreOperation::new(self).leaving_nothing().one_at_a_time();
        operation.run(|attempt| operation.call(attempt, Statement { sql, parameters }, false), |_| true).await
    }

    /// Returns the only row of a function that writes, and whose writes are nothing to the operation that needs its answer. It is repeated only
    /// if its answer is lost.
    pub(in crate::store::sql) async fn call_aside(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
    ) -> Result<RowOf<D>, StoreError> {
        let operation = &StoreOperation::new(self).leaving_nothing().one_at_a_time();
        let rows = operation.run(|attempt| operation.call(attempt, Statement { sql, parameters }, true), |_| true);
        only_row(rows.await?).map_err(corrupt)
    }

    /// As [`query_one`](Self::query_one), with a deadline of its own.
    pub(in crate::store::sql) async fn query_one_until(
        &self,
        deadline: Instant,
        sql: &str,
        parameters: &[Value<'_>],
    ) -> Result<RowOf<D>, StoreError> {
        let operation = &StoreOperation::until(self, deadline);
        operation.run(|attempt| operation.query_one(attempt, Statement { sql, parameters }), |_| true).await
    }

    /// As [`query_one`](Self::query_one), of a statement whose first attempt may be sent in a batch. `done` is the outcome then; `read`
    /// converts the row of the single statement.
    pub(in crate::store::sql) async fn query_together<K: Kind<Answer = ()>, A: Copy>(
        &self,
        lane: &Lane<D, K>,
        item: impl Fn() -> K::Item + Sync,
        done: A,
        statement: Statement<'_>,
        read: impl Fn(&RowOf<D>) -> Result<A, StoreError> + Sync,
    ) -> Result<A, StoreError> {
        let operation = &StoreOperation::new(self);
        let (item, read) = (&item, &read);
        let ask = |attempt: AttemptPlan| async move {
            let _slot = match operation.share(attempt, lane, item).await? {
                SendMode::Alone(slot) => slot,
                SendMode::Together(Some(())) => return Ok(done),
                SendMode::Refused | SendMode::Together(None) => None,
            };
            read(&operation.query_one(attempt, statement).await?).map_err(Failure::Corrupt)
        };
        operation.run(ask, |_| true).await
    }

    /// As [`query_one`](Self::query_one), of a statement that may take long: it is repeated only if its answer is lost.
    pub(in crate::store::sql) async fn query_one_long(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
    ) -> Result<RowOf<D>, StoreError> {
        let operation = &StoreOperation::new(self).one_at_a_time();
        operation.run(|attempt| operation.query_one(attempt, Statement { sql, parameters }), |_| true).await
    }
}
