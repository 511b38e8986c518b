//! Rows of answers, and the conversion of their columns.

use std::error::Error;

use sqlx::{
    Column as _, Row as _, TypeInfo as _, ValueRef as _,
    postgres::{PgRow, PgValueFormat},
};
use tonic_idempotency::store::driver::{Row, Value};

/// A row of an answer.
pub struct SqlxRow {
    row: PgRow,
    /// The values of `bytea` columns that came as text, and their columns.
    bytes: Vec<(usize, Vec<u8>)>,
}

impl SqlxRow {
    pub(crate) fn new(row: PgRow) -> Result<Self, sqlx::Error> {
        let mut bytes = Vec::new();
        for column in row.columns() {
            let value = row.try_get_raw(column.ordinal())?;
            if value.format() == PgValueFormat::Text && column.type_info().name() == "BYTEA" && !value.is_null() {
                let text = value.as_str().map_err(sqlx::Error::Decode)?;
                let value = match text.starts_with("\\x") {
                    true => row.try_get(column.ordinal())?,
                    false => unescaped(text).ok_or_else(|| sqlx::Error::Decode("not a bytea".into()))?,
                };
                bytes.push((column.ordinal(), value));
            }
        }
        Ok(Self { row, bytes })
    }
}

/// Reads a `bytea` in the format of the server's setting `bytea_output = escape`, which sqlx does not know.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let byte;
        (byte, rest) = match rest {
            [b'\\', b'\\', rest @ ..] => (b'\\', rest),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), rest)
            }
            [b'\\', ..] => return None,
            [plain, rest @ ..] => (*plain, rest),
            [] => break,
        };
        bytes.push(byte);
    }
    Some(bytes)
}

impl Row for SqlxRow {
    fn value(&self, column: &str) -> Result<Value<'_>, Box<dyn Error + Send + Sync>> {
        let described = self.row.try_column(column)?;
        let index = described.ordinal();
        if let Some((_, bytes)) = self.bytes.iter().find(|(column, _)| *column == index) {
            return Ok(Value::Bytes(Some(bytes)));
        }
        Ok(match described.type_info().name() {
            "BOOL" => Value::Bool(self.row.try_get(index)?),
            "BYTEA" => Value::Bytes(self.row.try_get(index)?),
            "FLOAT8" => Value::Double(self.row.try_get(index)?),
            "INT4" => Value::Int(self.row.try_get(index)?),
            "INT8" => Value::BigInt(self.row.try_get(index)?),
            "TEXT" => Value::Text(self.row.try_get(index)?),
            "UUID" => Value::Uuid(self.row.try_get(index)?),
            other => return Err(format!("the column {column} has the type {other}").into()),
        })
    }
}

/// Omits the values: they are keys and responses.
impl std::fmt::Debug for SqlxRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlxRow").finish_non_exhaustive()
    }
}
