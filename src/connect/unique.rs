use std::{collections::HashSet, fmt};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Finds members of JSON objects that are there twice, of which a parser would drop one unsaid: the same key, both names of
/// one field, or two spellings of one map key.
#[derive(Clone)]
pub(super) enum Unique {
    /// The entries of a map field.
    Map(FieldDescriptor),
    Message(MessageDescriptor),
    /// Of no known shape: a scalar, or a type with a JSON form of its own.
    Plain,
}

impl Unique {
    /// Reads a message in JSON, as far as is needed to know that nothing in it is there twice.
    pub(super) fn check(message: &MessageDescriptor, json: &[u8]) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        Self::message(message.clone()).deserialize(&mut deserializer)
    }

    fn message(message: MessageDescriptor) -> Self {
        match message.full_name().strip_prefix("google.protobuf.") {
            Some(_) => Self::Plain,
            None => Self::Message(message),
        }
    }

    fn of(field: FieldDescriptor) -> Self {
        match field.kind() {
            _ if field.is_map() => Self::Map(field),
            Kind::Message(message) => Self::message(message),
            _ => Self::Plain,
        }
    }

    /// What a key stands for, and what its value is.
    fn member(&self, key: String) -> (Member, Self) {
        match self {
            Self::Map(field) => {
                let Kind::Message(entry) = field.kind() else { return (Member::Key(key), Self::Plain) };
                let number = match entry.map_entry_key_field().kind() {
                    Kind::Bool | Kind::String => None,
                    _ => key.parse().ok(),
                };
                (number.map_or(Member::Key(key), Member::Number), Self::of(entry.map_entry_value_field()))
            }
            Self::Message(message) => {
                let field = message.get_field_by_json_name(&key).or_else(|| message.get_field_by_name(&key));
                match field {
                    Some(field) => (Member::Number(field.number().into()), Self::of(field)),
                    None => (Member::Key(key), Self::Plain),
                }
            }
            Self::Plain => (Member::Key(key), Self::Plain),
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Member {
    Key(String),
    /// A field's, or a map key.
    Number(i128),
}

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let (member, value) = self.member(key.clone());
            if !seen.insert(member) {
                return Err(A::Error::custom(format_args!("{key:?} is there twice")));
            }
            map.next_value_seed(value)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self.clone())?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
