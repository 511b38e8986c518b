//! Parses the fields of a message.

use std::{borrow::Cow, collections::HashSet, fmt};

use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::Kind;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    binary::wire_type, field::Field, parser::MessageParser, scalar, seen::Seen, well_known_type::WellKnownType,
};
use crate::MAX_DEPTH;

/// The numbers of a map entry's fields.
const KEY: u32 = 1;
const VALUE: u32 = 2;

impl<'de> DeserializeSeed<'de> for MessageParser<'_> {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(D::Error::custom("nested more than 100 levels deep"));
        }
        match WellKnownType::of(self.descriptor) {
            Some(form) => form.read(self, deserializer),
            None => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for MessageParser<'_> {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the fields of {}", self.descriptor.full_name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let (mut message, mut seen, mut chosen) = (Vec::new(), Seen::default(), HashSet::new());
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let field = match self.beside {
                Some(beside) if beside == name => None,
                _ => Field::named(self.descriptor, &name),
            };
            // A field under any of its names.
            let member = field.as_ref().map_or(Err(&*name), |field| Ok(field.number));
            if !seen.insert(member) {
                return Err(A::Error::custom(format_args!("duplicate field {name:?}")));
            }
            let Some(field) = field else {
                if self.beside != Some(&name) && !self.ignore_unknown_fields {
                    return Err(A::Error::custom(format_args!(
                        "unknown field {name:?} of {}",
                        self.descriptor.full_name()
                    )));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let is_there = map.next_value_seed(Value { field: &field, of: self, message: &mut message })?;
            if let Some(oneof) = field.oneof
                && is_there
                && !chosen.insert(oneof)
            {
                return Err(A::Error::custom(format_args!("{name:?} sets a oneof that is already set")));
            }
        }
        Ok(message)
    }
}

/// Parses the value of a field and returns whether the field is set. `null` leaves most fields unset.
struct Value<'a> {
    field: &'a Field,
    of: MessageParser<'a>,
    message: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        self.visit_none()
    }

    fn visit_none<E: Error>(self) -> Result<bool, E> {
        let null = match &self.field.kind {
            Kind::Message(message) => WellKnownType::of(message).and_then(WellKnownType::null),
            Kind::Enum(it) if it.full_name() == scalar::NULL_VALUE => Some([0].as_slice()),
            _ => None,
        };
        let Some(null) = null.filter(|_| !self.field.is_list && !self.field.is_map) else { return Ok(false) };
        write(self.field, Some(null.to_vec()), self.message);
        Ok(true)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        let Self { field, of, message } = self;
        if field.is_map {
            deserializer.deserialize_map(Entries { field, of, message })?;
        } else if field.is_list {
            deserializer.deserialize_seq(Elements { field, of, message })?;
        } else {
            let value = Single { kind: &field.kind, of }.deserialize(deserializer)?;
            return Ok(write(field, value, message));
        }
        Ok(true)
    }
}

/// Parses the elements of a list.
struct Elements<'a> {
    field: &'a Field,
    of: MessageParser<'a>,
    message: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { field, of, message } = self;
        let mut packed = Vec::new();
        while let Some(value) = list.next_element_seed(Single { kind: &field.kind, of })? {
            match value {
                Some(value) if field.is_packed => packed.extend(value),
                value => {
                    write(field, value, message);
                }
            }
        }
        if !packed.is_empty() {
            write_bytes(field.number, &packed, message);
        }
        Ok(())
    }
}

/// Parses the entries of a map.
struct Entries<'a> {
    field: &'a Field,
    of: MessageParser<'a>,
    message: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Kind::Message(entry) = &self.field.kind else { return Err(A::Error::custom("a map without entries")) };
        let [key, value] = [entry.map_entry_key_field(), entry.map_entry_value_field()].map(Field::from);
        // Compares encoded keys, so that 1 and 01 are duplicates.
        let mut seen = Seen::default();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let bytes = scalar::key(&key.kind, &name).map_err(A::Error::custom)?;
            if !seen.insert(&bytes) {
                return Err(A::Error::custom(format_args!("duplicate map key {name:?}")));
            }
            let mut pair = Vec::new();
            write(&Field { number: KEY, ..key.clone() }, Some(bytes), &mut pair);
            let bytes = map.next_value_seed(Single { kind: &value.kind, of: self.of })?;
            if write(&Field { number: VALUE, ..value.clone() }, bytes, &mut pair) {
                write_bytes(self.field.number, &pair, self.message);
            }
        }
        Ok(())
    }
}

/// Parses one value into its bytes, without tag and length; `None` for an unknown enum value if those are ignored.
struct Single<'a> {
    kind: &'a Kind,
    of: MessageParser<'a>,
}

impl<'de> DeserializeSeed<'de> for Single<'_> {
    type Value = Option<Vec<u8>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        match self.kind {
            Kind::Message(message) => self.of.inner(message, 1).deserialize(deserializer).map(Some),
            kind => {
                let json: &RawValue = serde::Deserialize::deserialize(deserializer)?;
                scalar::value(kind, json.get(), self.of.ignore_unknown_fields).map_err(D::Error::custom)
            }
        }
    }
}

/// Writes a field if it has a value; returns whether it has.
fn write(field: &Field, value: Option<Vec<u8>>, message: &mut Vec<u8>) -> bool {
    let Some(value) = value else { return false };
    match wire_type(&field.kind) {
        WireType::LengthDelimited if field.is_group => {
            encode_key(field.number, WireType::StartGroup, message);
            message.extend(value);
            encode_key(field.number, WireType::EndGroup, message);
        }
        WireType::LengthDelimited => write_bytes(field.number, &value, message),
        wire_type => {
            encode_key(field.number, wire_type, message);
            message.extend(value);
        }
    }
    true
}

fn write_bytes(number: u32, value: &[u8], message: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, message);
    encode_varint(value.len() as u64, message);
    message.extend(value);
}
