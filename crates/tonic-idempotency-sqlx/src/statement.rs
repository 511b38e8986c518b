//! Statements with their parameters.

use sqlx::{AssertSqlSafe, Postgres, postgres::PgArguments, query::Query};
use tonic_idempotency::store::driver::{Statement, Value};

/// Makes a statement with its parameters, which may be kept prepared.
pub(crate) fn bound<'q>(statement: Statement<'q>, persistent: bool) -> Query<'q, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(statement.sql.to_owned())).persistent(persistent);
    statement.parameters.iter().fold(query, |query, value| match *value {
        Value::BigInt(value) => query.bind(value),
        Value::Bool(value) => query.bind(value),
        Value::Bools(values) => query.bind(values),
        Value::Bytes(value) => query.bind(value),
        Value::Double(value) => query.bind(value),
        Value::Doubles(values) => query.bind(values),
        Value::Int(value) => query.bind(value),
        Value::OptionalBytes(values) => query.bind(values),
        Value::OptionalTexts(values) => query.bind(values),
        Value::OptionalUuids(values) => query.bind(values),
        Value::Text(value) => query.bind(value),
        Value::Texts(value) => query.bind(value),
        Value::Uuid(value) => query.bind(value),
        Value::Uuids(values) => query.bind(values),
        _ => unreachable!("the store's statements have no other types"),
    })
}
