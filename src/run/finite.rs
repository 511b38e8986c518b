//! Finds numbers that JSON does not have: serde_json writes NaN and infinities as `null`.

use std::{error::Error, fmt};

use serde::ser::{self, Serialize, Serializer};

/// Fails if there is a NaN or an infinity in a value.
///
/// # Errors
///
/// [`NotFinite`], which names the first one's place.
pub(super) fn check_finite(value: &(impl Serialize + ?Sized)) -> Result<(), NotFinite> {
    value.serialize(Finite)
}

/// The error of a value with a number that is not finite, or that cannot be serialized.
#[derive(Debug)]
pub(super) struct NotFinite {
    path: String,
    says: String,
}

impl NotFinite {
    /// Adds the part of the path before the present one.
    fn below(self, part: fmt::Arguments<'_>) -> Self {
        Self { path: format!("{part}{}", self.path), ..self }
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.trim_start_matches('.') {
            "" => f.write_str(&self.says),
            path => write!(f, "{path}: {}", self.says),
        }
    }
}

impl Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: String::new(), says: message.to_string() }
    }
}

type Checked = Result<(), NotFinite>;

/// Reads a value, and writes nothing.
struct Finite;

/// Methods that accept their value.
macro_rules! accept {
    ($($method:ident($($type:ty),*);)*) => {
        $(fn $method(self, $(_: $type),*) -> Checked {
            Ok(())
        })*
    };
}

/// Methods that begin a value with parts.
macro_rules! begin {
    ($($method:ident($($type:ty),*) -> $parts:ident;)*) => {
        $(
            type $parts = Parts;

            fn $method(self, $(_: $type),*) -> Result<Parts, NotFinite> {
                Ok(Parts::default())
            }
        )*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;

    accept! {
        serialize_bool(bool);
        serialize_bytes(&[u8]);
        serialize_char(char);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_none();
        serialize_str(&str);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_f32(self, number: f32) -> Checked {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Checked {
        if number.is_finite() {
            return Ok(());
        }
        Err(ser::Error::custom(format_args!("JSON has no {number}; write an Option, or a string")))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Checked {
        check_finite(value).map_err(|error| error.below(format_args!(".{variant}")))
    }

    begin! {
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_struct(&'static str, usize) -> SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
    }
}

/// The parts of a value: the number of those that were read, and the last key of a map.
#[derive(Default)]
struct Parts {
    read: usize,
    key: String,
}

/// Reads the parts of lists and of structures.
macro_rules! parts {
    ($($list:ident::$element:ident)*; $($structure:ident)*) => {
        $(impl ser::$list for Parts {
            type Ok = ();
            type Error = NotFinite;

            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
                let index = self.read;
                self.read += 1;
                check_finite(value).map_err(|error| error.below(format_args!("[{index}]")))
            }

            fn end(self) -> Checked {
                Ok(())
            }
        })*
        $(impl ser::$structure for Parts {
            type Ok = ();
            type Error = NotFinite;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Checked {
                check_finite(value).map_err(|error| error.below(format_args!(".{name}")))
            }

            fn end(self) -> Checked {
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq::serialize_element SerializeTuple::serialize_element SerializeTupleStruct::serialize_field
    SerializeTupleVariant::serialize_field;
    SerializeStruct SerializeStructVariant
}

impl ser::SerializeMap for Parts {
    type Ok = ();
    type Error = NotFinite;

    /// serde_json refuses keys that are not finite.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Checked {
        self.key = serde_json::to_string(key).unwrap_or_default();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        check_finite(value).map_err(|error| error.below(format_args!("[{}]", self.key)))
    }

    fn end(self) -> Checked {
        Ok(())
    }
}
