//! Parses the types that have a JSON form of their own.

use std::{borrow::Cow, fmt};

use prost_reflect::Kind;
use serde::de::{DeserializeSeed as _, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    any_json,
    binary::{field_of, varint},
    duration, field_mask,
    parser::MessageParser,
    scalar, timestamp,
    well_known_type::{ANY_DEPTH, TYPE, VALUE, WellKnownType},
};

impl WellKnownType {
    /// Parses a message of this type into its binary encoding.
    pub(super) fn read<'de, D: Deserializer<'de>>(
        self,
        message: MessageParser<'_>,
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        match self {
            Self::Any => {
                let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
                any(message, json.get()).map_err(D::Error::custom)
            }
            Self::Duration => text(deserializer, |text| duration::read(text).map(seconds_and_nanos)),
            Self::Empty => deserializer.deserialize_map(message),
            Self::FieldMask => text(deserializer, |text| {
                let paths = field_mask::read(text)?;
                Some(paths.iter().flat_map(|path| field_of(1, &Kind::String, path.as_bytes())).collect())
            }),
            Self::List => any_json(message, deserializer, any_json::list),
            Self::Struct => any_json(message, deserializer, any_json::object),
            Self::Timestamp => text(deserializer, |text| timestamp::read(text).map(seconds_and_nanos)),
            Self::Value => any_json(message, deserializer, any_json::value),
            Self::Wrapper => {
                let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
                let Some(field) = message.descriptor.get_field(1) else { return Err(D::Error::custom("no value")) };
                let value = scalar::value(&field.kind(), json.get(), message.ignore_unknown_fields)
                    .map_err(D::Error::custom)?;
                Ok(value.map(|value| field_of(1, &field.kind(), &value)).unwrap_or_default())
            }
        }
    }
}

/// Parses a type whose JSON form is a string.
fn text<'de, D: Deserializer<'de>>(
    deserializer: D,
    read: impl FnOnce(&str) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, D::Error> {
    let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
    let text = scalar::string(json.get()).map_err(D::Error::custom)?;
    read(&text).ok_or_else(|| D::Error::custom(format_args!("{text:?} is malformed or out of range")))
}

/// Parses a type whose JSON form is any JSON.
fn any_json<'de, D: Deserializer<'de>>(
    message: MessageParser<'_>,
    deserializer: D,
    read: impl FnOnce(&str, u32) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, D::Error> {
    let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
    read(json.get(), message.depth).map_err(D::Error::custom)
}

/// Encodes a `Timestamp` or a `Duration`.
fn seconds_and_nanos((seconds, nanos): (i64, i32)) -> Vec<u8> {
    let mut message = field_of(1, &Kind::Int64, &varint(seconds as u64));
    message.extend(field_of(2, &Kind::Int32, &varint(i64::from(nanos) as u64)));
    message
}

/// Parses an `Any` by the type that it names.
fn any(message: MessageParser<'_>, json: &str) -> Result<Vec<u8>, serde_json::Error> {
    let Members { type_url, value, others } = serde_json::from_str(json)?;
    let Some(type_url) = type_url else {
        return match others == 0 && value.is_none() {
            true => Ok(Vec::new()),
            false => Err(serde_json::Error::custom("missing \"@type\" in an Any")),
        };
    };
    let name = type_url.rsplit_once('/').map_or(&*type_url, |(_, name)| name);
    // The pool also finds names with a leading dot, which are not valid here.
    let descriptor = message.descriptor.parent_pool().get_message_by_name(name).filter(|it| it.full_name() == name);
    let Some(descriptor) = descriptor else {
        return Err(serde_json::Error::custom(format_args!("unknown type {type_url:?} in an Any")));
    };
    let inner = message.inner(&descriptor, ANY_DEPTH);
    let payload = match WellKnownType::of(&descriptor) {
        None => inner.beside(TYPE).deserialize(&mut serde_json::Deserializer::from_str(json))?,
        Some(form) => {
            if others > 0 && !message.ignore_unknown_fields {
                return Err(serde_json::Error::custom(
                    "unknown field in an Any of a well-known type: expected only \"@type\" and \"value\"",
                ));
            }
            match (value, form) {
                (Some(value), _) => inner.deserialize(&mut serde_json::Deserializer::from_str(value.get()))?,
                // The form that protobuf-go writes.
                (None, WellKnownType::Empty) => Vec::new(),
                (None, _) => return Err(serde_json::Error::custom("missing \"value\" in an Any of a well-known type")),
            }
        }
    };
    // Canonical, because the hash covers these bytes as they are: the canonical encoding does not look inside an `Any`.
    let payload = message.encoders.get(&descriptor).encode(&payload).map_err(serde_json::Error::custom)?.into_owned();
    let mut any = field_of(1, &Kind::String, type_url.as_bytes());
    any.extend(field_of(2, &Kind::Bytes, &payload));
    Ok(any)
}

/// The members of an `Any` that are not fields of its message.
struct Members<'a> {
    type_url: Option<String>,
    value: Option<&'a RawValue>,
    /// The number of other members.
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
        f.write_str("an object with a \"@type\"")
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
                return Err(A::Error::custom(format_args!("duplicate field {name:?}")));
            }
        }
        Ok(members)
    }
}
