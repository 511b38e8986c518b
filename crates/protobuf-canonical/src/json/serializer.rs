//! The serializer: a decoded message to protobuf's JSON.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};
use serde::{
    Serialize, Serializer,
    ser::{Error, SerializeMap},
};

use super::{
    scalar::NULL_VALUE,
    well_known_type::{ANY_DEPTH, TYPE, VALUE, WellKnownType},
};
use crate::{MAX_DEPTH, features::has_presence};

/// Serializes a message. prost-reflect's own serializer is not used: it omits negative zeros, writes null for wrapped
/// numbers that are not finite, cannot write an empty `Any`, and has no depth limit for an `Any` inside another.
pub(super) struct MessageSerializer<'a> {
    message: &'a DynamicMessage,
    depth: u32,
}

impl<'a> MessageSerializer<'a> {
    pub(super) fn new(message: &'a DynamicMessage) -> Self {
        Self { message, depth: 0 }
    }

    fn any<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (type_url, content) = (self.message.get_field_by_number(1), self.message.get_field_by_number(2));
        let type_url = type_url.as_ref().and_then(|it| it.as_str()).unwrap_or_default();
        let content = content.as_ref().and_then(|it| it.as_bytes()).cloned().unwrap_or_default();
        let mut map = serializer.serialize_map(None)?;
        if type_url.is_empty() && content.is_empty() {
            return map.end();
        }
        let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
        let descriptor = self.message.descriptor().parent_pool().get_message_by_name(name);
        let Some(descriptor) = descriptor.filter(|it| it.full_name() == name) else {
            return Err(S::Error::custom(format_args!("unknown type {type_url:?} in an Any")));
        };
        if self.depth + ANY_DEPTH > MAX_DEPTH {
            return Err(S::Error::custom("nested more than 100 levels deep"));
        }
        let message = DynamicMessage::decode(descriptor, content).map_err(S::Error::custom)?;
        let inner = MessageSerializer { message: &message, depth: self.depth + ANY_DEPTH };
        map.serialize_entry(TYPE, type_url)?;
        match WellKnownType::of(&message.descriptor()) {
            None => inner.fields(&mut map)?,
            Some(_) => map.serialize_entry(VALUE, &inner)?,
        }
        map.end()
    }

    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let depth = self.depth;
        for field in self.message.descriptor().fields() {
            let value = self.message.get_field(&field);
            if self.is_set(&field, &value) {
                map.serialize_entry(field.json_name(), &ValueSerializer { value: &value, kind: &field.kind(), depth })?;
            }
        }
        for (extension, value) in self.message.extensions() {
            map.serialize_entry(extension.json_name(), &ValueSerializer { value, kind: &extension.kind(), depth })?;
        }
        Ok(())
    }

    fn is_set(&self, field: &FieldDescriptor, value: &Value) -> bool {
        match (self.message.has_field(field), field.supports_presence()) {
            (false, has_presence) => !has_presence && is_negative_zero(value),
            (true, false) => true,
            (true, true) => !is_zero(value) || has_presence(field),
        }
    }
}

impl Serialize for MessageSerializer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match WellKnownType::of(&self.message.descriptor()) {
            Some(WellKnownType::Any) => self.any(serializer),
            Some(WellKnownType::Wrapper) => {
                let field = self.message.descriptor().get_field(1).ok_or_else(|| S::Error::custom("no value"))?;
                let (value, kind) = (self.message.get_field(&field), field.kind());
                ValueSerializer { value: &value, kind: &kind, depth: self.depth }.serialize(serializer)
            }
            Some(
                WellKnownType::Duration
                | WellKnownType::FieldMask
                | WellKnownType::List
                | WellKnownType::Struct
                | WellKnownType::Timestamp
                | WellKnownType::Value,
            ) => self.message.serialize(serializer),
            Some(WellKnownType::Empty) | None => {
                let mut map = serializer.serialize_map(None)?;
                self.fields(&mut map)?;
                map.end()
            }
        }
    }
}

/// Serializes the value of a field.
struct ValueSerializer<'a> {
    value: &'a Value,
    kind: &'a Kind,
    depth: u32,
}

impl Serialize for ValueSerializer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, depth, .. } = *self;
        match self.value {
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Bytes(value) => serializer.collect_str(&BASE64_STANDARD.encode(value)),
            Value::EnumNumber(number) => match kind.as_enum() {
                Some(values) if values.full_name() == NULL_VALUE => serializer.serialize_unit(),
                Some(values) => match values.get_value(*number) {
                    Some(value) => serializer.serialize_str(value.name()),
                    None => serializer.serialize_i32(*number),
                },
                None => serializer.serialize_i32(*number),
            },
            Value::F32(value) if value.is_finite() => serializer.serialize_f32(*value),
            Value::F32(value) => serializer.serialize_str(not_finite((*value).into())),
            Value::F64(value) if value.is_finite() => serializer.serialize_f64(*value),
            Value::F64(value) => serializer.serialize_str(not_finite(*value)),
            Value::I32(value) => serializer.serialize_i32(*value),
            Value::I64(value) => serializer.collect_str(value),
            Value::List(values) => {
                serializer.collect_seq(values.iter().map(|value| ValueSerializer { value, kind, depth }))
            }
            Value::Map(values) => {
                let entry = kind.as_message().ok_or_else(|| S::Error::custom("a map without entries"))?;
                let kind = &entry.map_entry_value_field().kind();
                // Sorted, so that a replay gives the same text.
                let mut entries: Vec<_> = values.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                let entries = entries.into_iter();
                serializer.collect_map(entries.map(|(key, value)| (text(key), ValueSerializer { value, kind, depth })))
            }
            Value::Message(message) => MessageSerializer { message, depth: depth + 1 }.serialize(serializer),
            Value::String(value) => serializer.serialize_str(value),
            Value::U32(value) => serializer.serialize_u32(*value),
            Value::U64(value) => serializer.collect_str(value),
        }
    }
}

fn text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
    }
}

/// Returns whether this is the default of a scalar with implicit presence.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Bytes(value) => value.is_empty(),
        Value::EnumNumber(number) => *number == 0,
        Value::F32(value) => value.to_bits() == 0,
        Value::F64(value) => value.to_bits() == 0,
        Value::I32(value) => *value == 0,
        Value::I64(value) => *value == 0,
        Value::List(_) | Value::Map(_) | Value::Message(_) => false,
        Value::String(value) => value.is_empty(),
        Value::U32(value) => *value == 0,
        Value::U64(value) => *value == 0,
    }
}

fn is_negative_zero(value: &Value) -> bool {
    value.as_f64().or_else(|| value.as_f32().map(f64::from)).is_some_and(|it| it == 0.0 && it.is_sign_negative())
}

fn not_finite(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}
