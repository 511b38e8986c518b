//! Rows of answers, and the conversion of their columns.

use std::{array::TryFromSliceError, error::Error};

use diesel::{
    QueryableByName, deserialize,
    pg::Pg,
    row::{self, Field as _, NamedRow},
};
use tonic_idempotency::store::driver::{Row, Value};
use uuid::Uuid;

/// The OIDs of the types of columns.
const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const FLOAT8: u32 = 701;
const UUID: u32 = 2950;

/// A row of an answer.
pub struct DieselRow {
    columns: Vec<Column>,
}

/// A column of a row.
struct Column {
    name: String,
    /// The OID of the type, and the binary value; `None` is NULL, whose type diesel does not tell.
    value: Option<(u32, Vec<u8>)>,
}

impl QueryableByName<Pg> for DieselRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let column = |index| {
            let field = row::Row::get(row, index)?;
            let value = field.value().map(|value| (value.get_oid().get(), value.as_bytes().to_vec()));
            Some(Column { name: field.field_name().unwrap_or_default().to_owned(), value })
        };
        Ok(Self { columns: (0..row.field_count()).filter_map(column).collect() })
    }
}

impl Row for DieselRow {
    fn value(&self, column: &str) -> Result<Value<'_>, Box<dyn Error + Send + Sync>> {
        let found = self.columns.iter().find(|Column { name, .. }| name == column);
        let Column { value, .. } = found.ok_or_else(|| format!("there is no column {column}"))?;
        let Some((oid, bytes)) = value else { return Ok(Value::Null) };
        Ok(match *oid {
            BOOL => (fixed::<1>(bytes)? != [0]).into(),
            BYTEA => Value::Bytes(Some(bytes)),
            FLOAT8 => f64::from_be_bytes(fixed(bytes)?).into(),
            INT4 => i32::from_be_bytes(fixed(bytes)?).into(),
            INT8 => i64::from_be_bytes(fixed(bytes)?).into(),
            TEXT => std::str::from_utf8(bytes)?.into(),
            UUID => Uuid::from_slice(bytes)?.into(),
            other => return Err(format!("the column {column} has the type with the OID {other}").into()),
        })
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], TryFromSliceError> {
    bytes.try_into()
}

/// Omits the values: they are keys and responses.
impl std::fmt::Debug for DieselRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DieselRow").finish_non_exhaustive()
    }
}
