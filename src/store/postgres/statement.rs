//! Statements, parsed each time or prepared, their parameters and their rows.

use std::{
    error::Error as StdError,
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::BytesMut;
use deadpool_postgres::ClientWrapper;
use futures_util::TryStreamExt as _;
use tokio_postgres::{
    Error, Row,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::prepared_statements::Preparation;
use crate::store::driver::{Statement, Value};

type BoxError = Box<dyn StdError + Send + Sync>;

/// The way in which a store's statements are sent on a connection.
pub(super) struct Statements {
    preparation: Preparation,
    is_probed: AtomicBool,
}

impl Statements {
    pub(super) fn new(preparation: Preparation) -> Self {
        Self { preparation, is_probed: AtomicBool::new(false) }
    }

    /// Returns whether the probe of a pooler was given up: the connection must not be used again.
    pub(super) fn are_unsettled(&self) -> bool {
        self.is_probed.load(Ordering::Relaxed)
    }

    /// Returns whether a request to cancel one may do harm: tokio-postgres hangs up when it has sent it. PgBouncer before version 1.21 drops the
    /// request then, and version 1.18 may even end.
    pub(super) fn cannot_be_cancelled(&self) -> bool {
        self.preparation.is_given_up()
    }

    /// Makes a statement ready to be sent. The future that sends it can share its round trip with others that are
    /// polled together with it.
    pub(super) async fn ready<'a>(
        &self,
        connection: &ClientWrapper,
        statement: Statement<'a>,
    ) -> Result<Prepared<'a>, Error> {
        let Statement { sql, parameters } = statement;
        if !self.preparation.is_safe_on(connection, &self.is_probed).await? {
            return Ok(Prepared::Not { sql, parameters });
        }
        let types: Vec<_> = parameters.iter().map(type_of).collect();
        let statement = connection.prepare_typed_cached(sql, &types).await?;
        Ok(Prepared::Here { statement, parameters })
    }
}

/// A statement that is ready to be sent.
pub(super) enum Prepared<'a> {
    Not { sql: &'a str, parameters: &'a [Value<'a>] },
    Here { statement: tokio_postgres::Statement, parameters: &'a [Value<'a>] },
}

impl Prepared<'_> {
    pub(super) async fn query(&self, connection: &ClientWrapper) -> Result<Vec<Row>, Error> {
        let rows = match self {
            Self::Not { sql, parameters } => {
                let parameters = parameters.iter().map(|value| (value, type_of(value)));
                connection.query_typed_raw(sql, parameters).await?
            }
            Self::Here { statement, parameters } => connection.query_raw(statement, *parameters).await?,
        };
        rows.try_collect().await
    }
}

fn type_of(value: &Value<'_>) -> Type {
    match value {
        Value::BigInt(_) => Type::INT8,
        Value::Bool(_) => Type::BOOL,
        Value::Bools(_) => Type::BOOL_ARRAY,
        Value::Bytes(_) => Type::BYTEA,
        Value::Double(_) => Type::FLOAT8,
        Value::Doubles(_) => Type::FLOAT8_ARRAY,
        Value::Int(_) => Type::INT4,
        Value::Null => Type::UNKNOWN,
        Value::OptionalBytes(_) => Type::BYTEA_ARRAY,
        Value::OptionalTexts(_) | Value::Texts(_) => Type::TEXT_ARRAY,
        Value::OptionalUuids(_) | Value::Uuids(_) => Type::UUID_ARRAY,
        Value::Text(_) => Type::TEXT,
        Value::Uuid(_) => Type::UUID,
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self {
            Self::BigInt(value) => value.to_sql(ty, out),
            Self::Bool(value) => value.to_sql(ty, out),
            Self::Bools(values) => values.to_sql(ty, out),
            Self::Bytes(value) => value.to_sql(ty, out),
            Self::Double(value) => value.to_sql(ty, out),
            Self::Doubles(values) => values.to_sql(ty, out),
            Self::Int(value) => value.to_sql(ty, out),
            Self::Null => Ok(IsNull::Yes),
            Self::OptionalBytes(values) => values.to_sql(ty, out),
            Self::OptionalTexts(values) => values.to_sql(ty, out),
            Self::OptionalUuids(values) => values.to_sql(ty, out),
            Self::Text(value) => value.to_sql(ty, out),
            Self::Texts(value) => value.to_sql(ty, out),
            Self::Uuid(value) => value.to_sql(ty, out),
            Self::Uuids(values) => values.to_sql(ty, out),
        }
    }

    /// The statements are the store's own, and are sent with the types of their parameters.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Reads a column.
pub(super) fn value<'a>(row: &'a Row, column: &str) -> Result<Value<'a>, BoxError> {
    let (index, described) = row
        .columns()
        .iter()
        .enumerate()
        .find(|(_, described)| described.name() == column)
        .ok_or_else(|| format!("there is no column {column}"))?;
    Ok(match *described.type_() {
        Type::BOOL => Value::Bool(row.try_get(index)?),
        Type::BYTEA => Value::Bytes(row.try_get(index)?),
        Type::FLOAT8 => Value::Double(row.try_get(index)?),
        Type::INT4 => Value::Int(row.try_get(index)?),
        Type::INT8 => Value::BigInt(row.try_get(index)?),
        Type::TEXT => Value::Text(row.try_get(index)?),
        Type::UUID => Value::Uuid(row.try_get(index)?),
        ref other => return Err(format!("the column {column} has the type {other}").into()),
    })
}
