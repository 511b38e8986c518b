//! Well-known types that have a JSON form of their own.

use std::{borrow::Cow, collections::HashSet, fmt};

use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint},
};
use prost_reflect::{DeserializeOptions, DynamicMessage, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{message::Message, scalar};

/// Of the enum whose one value is `null`.
pub(super) const NULL_VALUE: &str = "google.protobuf.NullValue";

/// The member of an `Any` that names its type.
const TYPE: &str = "@type";

/// The member of an `Any` that holds a message with a form of its own.
const VALUE: &str = "value";

/// What an `Any` counts for in the depth of messages: it is read more than once at each level.
const ANY_DEPTH: u32 = 10;

/// A JSON form.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Any,
    /// A list of any JSON.
    List,
    /// An object of any JSON.
    Struct,
    /// A string, as prost-reflect reads it; or an empty object.
    Text,
    /// Any JSON.
    Value,
    /// As its one field.
    Wrapper,
}

impl Form {
    pub(super) fn of(message: &MessageDescriptor) -> Option<Self> {
        match message.full_name().strip_prefix("google.protobuf.")? {
            "Any" => Some(Self::Any),
            "Duration" | "Empty" | "FieldMask" | "Timestamp" => Some(Self::Text),
            "ListValue" => Some(Self::List),
            "Struct" => Some(Self::Struct),
            "Value" => Some(Self::Value),
            "BoolValue" | "BytesValue" | "DoubleValue" | "FloatValue" | "Int32Value" | "Int64Value" | "StringValue"
            | "UInt32Value" | "UInt64Value" => Some(Self::Wrapper),
            _ => None,
        }
    }

    /// What `null` is, where it is a value.
    pub(super) fn null(self) -> Option<&'static [u8]> {
        matches!(self, Self::Value).then_some(NULL)
    }

    /// Reads a message of this form into its binary encoding.
    pub(super) fn read<'de, D: Deserializer<'de>>(
        self,
        message: Message<'_>,
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        match self {
            Self::Any => {
                let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
                any(message, json.get()).map_err(D::Error::custom)
            }
            Self::List => deserializer.deserialize_seq(AnyJson { only: true }),
            Self::Struct => deserializer.deserialize_map(AnyJson { only: true }),
            Self::Text => {
                let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
                let mut deserializer = serde_json::Deserializer::from_str(json.get());
                let (descriptor, options) = (message.descriptor().clone(), DeserializeOptions::new());
                DynamicMessage::deserialize_with_options(descriptor, &mut deserializer, &options)
                    .map(|message| message.encode_to_vec())
                    .map_err(D::Error::custom)
            }
            Self::Value => deserializer.deserialize_any(AnyJson { only: false }),
            Self::Wrapper => {
                let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
                let Some(field) = message.descriptor().get_field(1) else { return Err(D::Error::custom("no value")) };
                let value = scalar::value(&field.kind(), json.get(), message.json()).map_err(D::Error::custom)?;
                Ok(value.map(|value| field_of(1, &field.kind(), &value)).unwrap_or_default())
            }
        }
    }
}

/// Reads an `Any` by the type that it names.
fn any(message: Message<'_>, json: &str) -> Result<Vec<u8>, serde_json::Error> {
    let Members { type_url, value, others } = serde_json::from_str(json)?;
    let Some(type_url) = type_url else {
        return match others == 0 && value.is_none() {
            true => Ok(Vec::new()),
            false => Err(serde_json::Error::custom("an Any needs its @type")),
        };
    };
    let name = type_url.rsplit_once('/').map(|(_, name)| name);
    let Some(descriptor) = name.and_then(|name| message.descriptor().parent_pool().get_message_by_name(name)) else {
        return Err(serde_json::Error::custom(format_args!("{type_url:?} is no type that is known here")));
    };
    let inner = message.inner(&descriptor, ANY_DEPTH);
    let payload = match Form::of(&descriptor) {
        None => inner.beside(TYPE).deserialize(&mut serde_json::Deserializer::from_str(json))?,
        Some(_) => {
            if others > 0 && !message.json().ignore_unknown_fields {
                return Err(serde_json::Error::custom("beside its @type and value there is something in an Any"));
            }
            let Some(value) = value else {
                return Err(serde_json::Error::custom("an Any of this type needs its value"));
            };
            inner.deserialize(&mut serde_json::Deserializer::from_str(value.get()))?
        }
    };
    // Its order is seen by nobody who does not know the type, and so by no hash.
    let payload =
        message.json().canonical(&descriptor).encode(&payload).map_err(serde_json::Error::custom)?.into_owned();
    let mut any = field_of(1, &Kind::String, type_url.as_bytes());
    any.extend(field_of(2, &Kind::Bytes, &payload));
    Ok(any)
}

/// The members of an `Any` that are no fields of its message.
struct Members<'a> {
    type_url: Option<String>,
    value: Option<&'a RawValue>,
    /// How many there are beside.
    others: usize,
}

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members { type_url: None, value: None, others: 0 };
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let is_first = match &*name {
                TYPE => members.type_url.replace(map.next_value()?).is_none(),
                VALUE => members.value.replace(map.next_value()?).is_none(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    members.others += 1;
                    true
                }
            };
            if !is_first {
                return Err(A::Error::custom(format_args!("{name:?} is there twice")));
            }
        }
        Ok(members)
    }
}

/// `null` as a `Value`.
const NULL: &[u8] = &[0x08, 0x00];

/// Reads any JSON: as a `Value`, or where it is the only thing that may be there, as the `Struct` or `ListValue` that it is.
#[derive(Clone, Copy)]
struct AnyJson {
    only: bool,
}

impl AnyJson {
    /// The bytes of a field of `Value`, or what is in it.
    fn wrap(self, number: u32, bytes: Vec<u8>) -> Vec<u8> {
        if self.only { bytes } else { field_of(number, &Kind::Bytes, &bytes) }
    }
}

impl<'de> DeserializeSeed<'de> for AnyJson {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyJson {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Vec<u8>, E> {
        Ok(NULL.to_vec())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Vec<u8>, E> {
        Ok(field_of(2, &Kind::Double, &value.to_le_bytes()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Vec<u8>, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Vec<u8>, E> {
        self.visit_f64(value as f64)
    }

    fn visit_str<E>(self, value: &str) -> Result<Vec<u8>, E> {
        Ok(field_of(3, &Kind::String, value.as_bytes()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Vec<u8>, E> {
        Ok(field_of(4, &Kind::Bool, &[value.into()]))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let (mut fields, mut seen) = (Vec::new(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            let mut entry = field_of(1, &Kind::String, name.as_bytes());
            entry.extend(field_of(2, &Kind::Bytes, &map.next_value_seed(Self { only: false })?));
            fields.extend(field_of(1, &Kind::Bytes, &entry));
            if let Some(twice) = seen.replace(name) {
                return Err(A::Error::custom(format_args!("{twice:?} is there twice")));
            }
        }
        Ok(self.wrap(5, fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Self { only: false })? {
            values.extend(field_of(1, &Kind::Bytes, &value));
        }
        Ok(self.wrap(6, values))
    }
}

/// A field with its tag and, where it has one, its length.
fn field_of(number: u32, kind: &Kind, value: &[u8]) -> Vec<u8> {
    let (mut bytes, wire_type) = (Vec::with_capacity(value.len() + 6), scalar::wire_type(kind));
    encode_key(number, wire_type, &mut bytes);
    if wire_type == WireType::LengthDelimited {
        encode_varint(value.len() as u64, &mut bytes);
    }
    bytes.extend(value);
    bytes
}
