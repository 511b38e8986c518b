//! Rows of answers: [`Row`].

use std::error::Error;

use bytes::Bytes;
use tonic_idempotency::store::driver::{self, Value};
use uuid::Uuid;

/// A row of an answer.
#[derive(Clone, Debug, Default)]
pub struct Row(Vec<(&'static str, Cell)>);

/// A value of a column.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    BigInt(i64),
    Bool(bool),
    Bytes(Bytes),
    Double(f64),
    Int(i32),
    Null,
    Text(String),
    Uuid(Uuid),
}

impl Row {
    /// Adds a column.
    pub(super) fn with(mut self, column: &'static str, value: impl Into<Cell>) -> Self {
        self.0.push((column, value.into()));
        self
    }

    /// Adds the columns of another row.
    pub(super) fn with_all(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Takes the status away of what a call has created, as if it could not be read.
    pub(super) fn lose_status(&mut self) {
        for (column, cell) in &mut self.0 {
            match *column {
                "status" => *cell = Cell::Null,
                "status_error" => *cell = Cell::Text("55P03".to_owned()),
                _ => {}
            }
        }
    }

    /// Returns the text of a column, if it has one.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        match self.cell(column)? {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    fn cell(&self, column: &str) -> Option<&Cell> {
        self.0.iter().find(|(name, _)| *name == column).map(|(_, cell)| cell)
    }
}

impl driver::Row for Row {
    fn value(&self, column: &str) -> Result<Value<'_>, Box<dyn Error + Send + Sync>> {
        let cell = self.cell(column).ok_or_else(|| format!("no column {column}"))?;
        Ok(match cell {
            Cell::BigInt(value) => (*value).into(),
            Cell::Bool(value) => (*value).into(),
            Cell::Bytes(value) => (&**value).into(),
            Cell::Double(value) => (*value).into(),
            Cell::Int(value) => (*value).into(),
            Cell::Null => Value::Null,
            Cell::Text(value) => value.as_str().into(),
            Cell::Uuid(value) => (*value).into(),
        })
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::BigInt(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<Bytes> for Cell {
    fn from(value: Bytes) -> Self {
        Self::Bytes(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<Uuid> for Cell {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}
