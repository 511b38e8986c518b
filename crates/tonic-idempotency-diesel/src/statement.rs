//! Statements with their parameters.

use std::{borrow::Cow, fmt, io::Write as _};

use diesel::{
    QueryResult,
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    serialize::{self, IsNull, Output, ToSql},
    sql_types::{Array, BigInt, Binary, Bool, Double, Integer, Nullable, Text, Untyped, Uuid},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use tonic_idempotency::store::driver::{Statement, Value};

use crate::row::DieselRow;

/// A statement with its parameters, which diesel prepares once for each connection, by its text. (A `sql_query` is prepared
/// anew each time.)
pub(crate) struct Bound<'a> {
    sql: Cow<'a, str>,
    parameters: Vec<Parameter<'a>>,
}

impl<'a> Bound<'a> {
    /// Binds the parameters. A new `generation` changes the SQL text, so that statements prepared under an older one are not reused.
    pub(crate) fn new(statement: Statement<'a>, generation: usize) -> Self {
        let Statement { sql, parameters } = statement;
        let sql = match generation {
            0 => Cow::Borrowed(sql),
            _ => Cow::Owned(format!("{sql}\n/* {generation} */")),
        };
        Self { sql, parameters: parameters.iter().copied().map(Parameter).collect() }
    }

    /// Runs the statement. The future can share its round trip with others that are polled together with it.
    pub(crate) async fn load(self, mut connection: &AsyncPgConnection) -> QueryResult<Vec<DieselRow>> {
        RunQueryDsl::load(self, &mut connection).await
    }
}

impl QueryFragment<Pg> for Bound<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(&self.sql);
        for parameter in &self.parameters {
            match parameter.0 {
                Value::BigInt(_) => out.push_bind_param_value_only::<Nullable<BigInt>, _>(parameter)?,
                Value::Bool(_) => out.push_bind_param_value_only::<Nullable<Bool>, _>(parameter)?,
                Value::Bools(_) => out.push_bind_param_value_only::<Nullable<Array<Bool>>, _>(parameter)?,
                Value::Bytes(_) => out.push_bind_param_value_only::<Nullable<Binary>, _>(parameter)?,
                Value::Double(_) => out.push_bind_param_value_only::<Nullable<Double>, _>(parameter)?,
                Value::Doubles(_) => out.push_bind_param_value_only::<Nullable<Array<Double>>, _>(parameter)?,
                Value::Int(_) => out.push_bind_param_value_only::<Nullable<Integer>, _>(parameter)?,
                Value::OptionalBytes(_) => out.push_bind_param_value_only::<Nullable<Array<Binary>>, _>(parameter)?,
                Value::Text(_) => out.push_bind_param_value_only::<Nullable<Text>, _>(parameter)?,
                Value::OptionalTexts(_) | Value::Texts(_) => {
                    out.push_bind_param_value_only::<Nullable<Array<Text>>, _>(parameter)?
                }
                Value::Uuid(_) => out.push_bind_param_value_only::<Nullable<Uuid>, _>(parameter)?,
                Value::OptionalUuids(_) | Value::Uuids(_) => {
                    out.push_bind_param_value_only::<Nullable<Array<Uuid>>, _>(parameter)?
                }
                _ => unreachable!("the store's statements have no other types"),
            }
        }
        Ok(())
    }
}

impl QueryId for Bound<'_> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Bound<'_> {
    type SqlType = Untyped;
}

/// A parameter in PostgreSQL's binary format.
struct Parameter<'a>(Value<'a>);

/// Shows the type only: the application's instrumentation is given the parameters of statements, which are keys and responses.
impl fmt::Debug for Parameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> ToSql<T, Pg> for Parameter<'_> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        match &self.0 {
            Value::BigInt(Some(value)) => out.write_all(&value.to_be_bytes())?,
            Value::Bool(Some(value)) => out.write_all(&[u8::from(*value)])?,
            Value::Bools(values) => return ToSql::<Array<Bool>, Pg>::to_sql(*values, out),
            Value::Bytes(Some(value)) => out.write_all(value)?,
            Value::Double(Some(value)) => out.write_all(&value.to_be_bytes())?,
            Value::Doubles(values) => return ToSql::<Array<Double>, Pg>::to_sql(*values, out),
            Value::Int(Some(value)) => out.write_all(&value.to_be_bytes())?,
            Value::OptionalBytes(values) => return ToSql::<Array<Nullable<Binary>>, Pg>::to_sql(*values, out),
            Value::OptionalTexts(values) => return ToSql::<Array<Nullable<Text>>, Pg>::to_sql(*values, out),
            Value::OptionalUuids(values) => return ToSql::<Array<Nullable<Uuid>>, Pg>::to_sql(*values, out),
            Value::Text(Some(value)) => out.write_all(value.as_bytes())?,
            Value::Texts(Some(value)) => return ToSql::<Array<Text>, Pg>::to_sql(*value, out),
            Value::Uuid(Some(value)) => out.write_all(value.as_bytes())?,
            Value::Uuids(values) => return ToSql::<Array<Uuid>, Pg>::to_sql(*values, out),
            _ => return Ok(IsNull::Yes),
        }
        Ok(IsNull::No)
    }
}
