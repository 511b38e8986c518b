//! The statements of the handlers: prepared once for each connection, or parsed each time.

use deadpool_postgres::Transaction;
use tokio_postgres::{
    Error, Row,
    types::{ToSql, Type},
};
use tonic_idempotency::{Transaction as CallTransaction, store::TransactionError};

/// The parameters of a statement, with their types.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// For a pooler in transaction mode: a statement that is prepared may not be there for the next transaction, or be another
    /// client's.
    Parsed,
    /// For connections of the server itself.
    Prepared,
}

impl Statements {
    /// Runs a statement in a transaction of the handler.
    pub(crate) async fn query(
        self,
        transaction: &Transaction<'_>,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        if self == Self::Parsed {
            return transaction.query_typed(sql, parameters).await;
        }
        let statement = transaction.prepare_typed_cached(sql, &types(parameters)).await?;
        transaction.query(&statement, &values(parameters)).await
    }

    /// Does the same as [`query`](Self::query), and returns the number of changed rows.
    pub(crate) async fn execute(
        self,
        transaction: &Transaction<'_>,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, Error> {
        if self == Self::Parsed {
            return transaction.execute_typed(sql, parameters).await;
        }
        let statement = transaction.prepare_typed_cached(sql, &types(parameters)).await?;
        transaction.execute(&statement, &values(parameters)).await
    }

    /// Runs a statement in the transaction of the call.
    pub(crate) async fn query_in_call(
        self,
        transaction: &CallTransaction,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, TransactionError> {
        if self == Self::Parsed {
            return transaction.query_typed(sql, parameters).await;
        }
        let statement = transaction.prepare_typed_cached(sql, &types(parameters)).await?;
        transaction.query(&statement, &values(parameters)).await
    }

    /// Does the same as [`query_in_call`](Self::query_in_call), and returns the number of changed rows.
    pub(crate) async fn execute_in_call(
        self,
        transaction: &CallTransaction,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, TransactionError> {
        if self == Self::Parsed {
            return transaction.execute_typed(sql, parameters).await;
        }
        let statement = transaction.prepare_typed_cached(sql, &types(parameters)).await?;
        transaction.execute(&statement, &values(parameters)).await
    }
}

fn types(parameters: Parameters<'_>) -> Vec<Type> {
    parameters.iter().map(|(_, ty)| ty.clone()).collect()
}

fn values<'a>(parameters: Parameters<'a>) -> Vec<&'a (dyn ToSql + Sync)> {
    parameters.iter().map(|(value, _)| *value).collect()
}
