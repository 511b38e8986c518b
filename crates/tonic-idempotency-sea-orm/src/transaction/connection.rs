//! sea-orm's connection traits for [`Transaction`] and [`Savepoint`], so that they stand in the place of a connection.

use std::{fmt, pin::Pin};

use futures_util::TryStreamExt as _;
use sea_orm::{
    AccessMode, ConnectionTrait, DbBackend, DbErr, ExecResult, IsolationLevel, QueryResult, Statement,
    TransactionError, TransactionOptions, TransactionTrait, Values,
};
use sea_query_sqlx::SqlxValues;
use sqlx::{AssertSqlSafe, Executor as _, Postgres, query::Query};

use super::{Savepoint, Transaction};

/// Makes a statement of sqlx, as sea-orm does.
pub(super) fn query(statement: Statement, persistent: bool) -> Query<'static, Postgres, SqlxValues> {
    let values = statement.values.unwrap_or_else(|| Values(Vec::new()));
    sqlx::query_with(AssertSqlSafe(statement.sql), SqlxValues(values)).persistent(persistent)
}

#[tonic::async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        DbBackend::Postgres
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let mut entered = self.session.enter(self.level).await?;
        let query = query(statement, entered.has_statement_cache());
        entered.answer(DbErr::Exec, |connection| Box::pin(query.execute(connection))).await.map(ExecResult::from)
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let mut entered = self.session.enter(self.level).await?;
        let sql = AssertSqlSafe(sql.to_owned());
        entered.answer(DbErr::Exec, |connection| connection.execute(sql)).await.map(ExecResult::from)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let mut entered = self.session.enter(self.level).await?;
        let query = query(statement, entered.has_statement_cache());
        let first = entered.answer(DbErr::Query, |connection| {
            Box::pin(async move {
                let mut rows = query.fetch(connection);
                let first = rows.try_next().await?;
                // sqlx would return an error in the other rows from the next statement.
                while rows.try_next().await?.is_some() {}
                Ok(first)
            })
        });
        first.await.map(|first| first.map(QueryResult::from))
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let mut entered = self.session.enter(self.level).await?;
        let query = query(statement, entered.has_statement_cache());
        let rows = entered.answer(DbErr::Query, |connection| Box::pin(query.fetch_all(connection))).await?;
        Ok(rows.into_iter().map(QueryResult::from).collect())
    }
}

#[tonic::async_trait]
impl ConnectionTrait for Savepoint {
    fn get_database_backend(&self) -> DbBackend {
        self.transaction.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.transaction.execute_raw(statement).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.transaction.execute_unprepared(sql).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.transaction.query_one_raw(statement).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.transaction.query_all_raw(statement).await
    }
}

impl Transaction {
    /// As `transaction_async` of [`DatabaseConnection`](sea_orm::DatabaseConnection): runs an async closure in a nested transaction,
    /// which is committed if the closure returns `Ok`, and rolled back otherwise.
    ///
    /// # Errors
    ///
    /// The closure's, or that of the nested transaction.
    pub async fn transaction_async<F, T, E>(&self, callback: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> AsyncFnOnce(&'c Savepoint) -> Result<T, E> + Send,
        T: Send,
        E: fmt::Display + fmt::Debug + Send,
    {
        self.transaction_with_config_async(callback, None, None).await
    }

    /// As [`transaction_async`](Self::transaction_async), with an isolation level and an access mode; see [`Savepoint`].
    ///
    /// # Errors
    ///
    /// As [`transaction_async`](Self::transaction_async).
    pub async fn transaction_with_config_async<F, T, E>(
        &self,
        callback: F,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<T, TransactionError<E>>
    where
        F: for<'c> AsyncFnOnce(&'c Savepoint) -> Result<T, E> + Send,
        T: Send,
        E: fmt::Display + fmt::Debug + Send,
    {
        let savepoint = self.begin_with_config(isolation_level, access_mode).await?;
        let worked = callback(&savepoint).await;
        savepoint.end(worked).await
    }
}

impl Savepoint {
    /// Commits or rolls back, as the result of a closure says.
    async fn end<T, E>(self, worked: Result<T, E>) -> Result<T, TransactionError<E>>
    where
        E: fmt::Display + fmt::Debug,
    {
        match worked {
            Ok(value) => self.commit().await.map(|()| value).map_err(TransactionError::Connection),
            Err(error) => {
                self.rollback().await?;
                Err(TransactionError::Transaction(error))
            }
        }
    }
}

/// A closure of [`TransactionTrait::transaction`].
type Work<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

#[tonic::async_trait]
impl TransactionTrait for Transaction {
    type Transaction = Savepoint;

    async fn begin(&self) -> Result<Savepoint, DbErr> {
        self.session.set_savepoint(self.level).await.map(Savepoint::new)
    }

    async fn begin_with_config(
        &self,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<Savepoint, DbErr> {
        let savepoint = TransactionTrait::begin(self).await?;
        let level = isolation_level.map(|level| format!(" ISOLATION LEVEL {level}"));
        let mode = access_mode.map(|mode| format!(" {mode}"));
        if level.is_some() || mode.is_some() {
            let set = ["SET TRANSACTION".to_owned(), level.unwrap_or_default(), mode.unwrap_or_default()];
            savepoint.execute_unprepared(&set.concat()).await?;
        }
        Ok(savepoint)
    }

    async fn begin_with_options(&self, options: TransactionOptions) -> Result<Savepoint, DbErr> {
        self.begin_with_config(options.isolation_level, options.access_mode).await
    }

    async fn transaction<F, T, E>(&self, callback: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c Savepoint) -> Work<'c, T, E> + Send,
        T: Send,
        E: fmt::Display + fmt::Debug + Send,
    {
        self.transaction_with_config(callback, None, None).await
    }

    async fn transaction_with_config<F, T, E>(
        &self,
        callback: F,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c Savepoint) -> Work<'c, T, E> + Send,
        T: Send,
        E: fmt::Display + fmt::Debug + Send,
    {
        let savepoint = self.begin_with_config(isolation_level, access_mode).await?;
        let worked = callback(&savepoint).await;
        savepoint.end(worked).await
    }
}

#[tonic::async_trait]
impl TransactionTrait for Savepoint {
    type Transaction = Self;

    async fn begin(&self) -> Result<Self, DbErr> {
        TransactionTrait::begin(&self.transaction).await
    }

    async fn begin_with_config(
        &self,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<Self, DbErr> {
        self.transaction.begin_with_config(isolation_level, access_mode).await
    }

    async fn begin_with_options(&self, options: TransactionOptions) -> Result<Self, DbErr> {
        self.transaction.begin_with_options(options).await
    }

    async fn transaction<F, T, E>(&self, callback: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c Self) -> Work<'c, T, E> + Send,
        T: Send,
        E: fmt::Display + fmt::Debug + Send,
    {
        self.transaction.transaction(callback).await
    }

    async fn transaction_with_config<F, T, E>(
        &self,
        callback: F,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c Self) -> Work<'c, T, E> + Send,
        T: Send,
        E: fmt::Display + fmt::Debug + Send,
    {
        self.transaction.transaction_with_config(callback, isolation_level, access_mode).await
    }
}
