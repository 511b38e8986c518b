//! Converts the parameters of statements, and the columns of rows.

use std::fmt;

use uuid::Uuid;

/// A parameter of a statement or a column of a row, of one of the types that the store's statements use. `None` is NULL.
///
/// `Debug` does not show it: parameters are keys and responses.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// `bigint`
    BigInt(Option<i64>),
    /// `boolean`
    Bool(Option<bool>),
    /// `boolean[]`. As every type of several values, only a parameter: no column has it.
    Bools(&'a [bool]),
    /// `bytea`
    Bytes(Option<&'a [u8]>),
    /// `double precision`
    Double(Option<f64>),
    /// `double precision[]`
    Doubles(&'a [f64]),
    /// `integer`
    Int(Option<i32>),
    /// NULL in a column whose type the driver does not know. Not a parameter.
    Null,
    /// `bytea[]`, some of whose elements may be NULL
    OptionalBytes(&'a [Option<&'a [u8]>]),
    /// `text[]`, some of whose elements may be NULL
    OptionalTexts(&'a [Option<&'a str>]),
    /// `uuid[]`, some of whose elements may be NULL
    OptionalUuids(&'a [Option<Uuid>]),
    /// `text`
    Text(Option<&'a str>),
    /// `text[]`
    Texts(Option<&'a [String]>),
    /// `uuid`
    Uuid(Option<Uuid>),
    /// `uuid[]`
    Uuids(&'a [Uuid]),
}

impl Value<'_> {
    /// Returns the name of the type in PostgreSQL.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::BigInt(_) => "bigint",
            Self::Bool(_) => "boolean",
            Self::Bools(_) => "boolean[]",
            Self::Bytes(_) => "bytea",
            Self::Double(_) => "double precision",
            Self::Doubles(_) => "double precision[]",
            Self::Int(_) => "integer",
            Self::Null => "unknown",
            Self::OptionalBytes(_) => "bytea[]",
            Self::Text(_) => "text",
            Self::OptionalTexts(_) | Self::Texts(_) => "text[]",
            Self::OptionalUuids(_) | Self::Uuids(_) => "uuid[]",
            Self::Uuid(_) => "uuid",
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

macro_rules! conversions {
    ($($variant:ident: $type:ty,)*) => {$(
        impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Self::$variant(Some(value))
            }
        }

        impl<'a> From<Option<$type>> for Value<'a> {
            fn from(value: Option<$type>) -> Self {
                Self::$variant(value)
            }
        }

        impl<'a> FromValue<'a> for $type {
            fn from_value(value: Value<'a>) -> Option<Self> {
                if let Value::$variant(value) = value { value } else { None }
            }
        }

        impl<'a> FromValue<'a> for Option<$type> {
            fn from_value(value: Value<'a>) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    Value::Null => Some(None),
                    _ => None,
                }
            }
        }
    )*};
}

conversions! {
    BigInt: i64,
    Bool: bool,
    Bytes: &'a [u8],
    Double: f64,
    Int: i32,
    Text: &'a str,
    Texts: &'a [String],
    Uuid: Uuid,
}

/// A type that a column can be read as.
pub(in crate::store::sql) trait FromValue<'a>: Sized {
    /// Returns `None` if the column has another type, or is NULL and must not be.
    fn from_value(value: Value<'a>) -> Option<Self>;
}
