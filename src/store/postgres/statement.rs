//! Statements, parsed each time or prepared.

use std::{error, fmt};

use bytes::BytesMut;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::{
    Error, Row,
    error::SqlState,
    types::{Format, IsNull, ToSql, Type},
};

/// The parameters of a statement, with their types.
pub(super) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// How a store sends its statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Statements {
    /// The server parses and plans them each time. Leaves nothing on a connection.
    #[default]
    Parsed,
    /// They are prepared once for each connection, which takes one more round trip then.
    Prepared,
}

impl Statements {
    /// Makes a statement ready to be sent. The future that sends it can share its round trip with others that are
    /// polled together with it.
    pub(super) async fn ready<'a>(
        self,
        connection: &ClientWrapper,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> Result<Statement<'a>, Error> {
        if self == Self::Parsed {
            return Ok(Statement::Parsed { sql, parameters });
        }
        let types: Vec<_> = parameters.iter().map(|(_, parameter)| parameter.clone()).collect();
        let prepared = connection.prepare_typed_cached(sql, &types).await?;
        Ok(Statement::Prepared { prepared, values: parameters.iter().map(|(value, _)| Unlogged(*value)).collect() })
    }

    /// Returns whether a statement failed only because it is stale: its function was replaced, or the server has
    /// forgotten it.
    pub(super) fn are_stale(self, error: &Error) -> bool {
        const STALE: [&SqlState; 2] = [&SqlState::FEATURE_NOT_SUPPORTED, &SqlState::INVALID_SQL_STATEMENT_NAME];
        self == Self::Prepared && error.code().is_some_and(|code| STALE.contains(&code))
    }
}

/// A statement that is ready to be sent.
pub(super) enum Statement<'a> {
    Parsed { sql: &'a str, parameters: Parameters<'a> },
    Prepared { prepared: tokio_postgres::Statement, values: Vec<Unlogged<'a>> },
}

impl Statement<'_> {
    pub(super) async fn query(&self, connection: &ClientWrapper) -> Result<Vec<Row>, Error> {
        match self {
            Self::Parsed { sql, parameters } => connection.query_typed(sql, parameters).await,
            Self::Prepared { prepared, values } => connection.query(prepared, &parameters(values)).await,
        }
    }

    pub(super) async fn query_one(&self, connection: &ClientWrapper) -> Result<Row, Error> {
        match self {
            Self::Parsed { sql, parameters } => connection.query_typed_one(sql, parameters).await,
            Self::Prepared { prepared, values } => connection.query_one(prepared, &parameters(values)).await,
        }
    }
}

fn parameters<'a>(values: &'a [Unlogged<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as _).collect()
}

/// A parameter that is not shown by `Debug`: tokio-postgres logs the parameters of prepared statements (level debug), and
/// they hold keys and responses.
#[derive(Clone, Copy)]
pub(super) struct Unlogged<'a>(&'a (dyn ToSql + Sync));

impl fmt::Debug for Unlogged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl ToSql for Unlogged<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn error::Error + Sync + Send>> {
        self.to_sql_checked(ty, out)
    }

    /// The parameter itself is checked in [`to_sql_checked`](Self::to_sql_checked).
    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn error::Error + Sync + Send>> {
        self.0.to_sql_checked(ty, out)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }
}
