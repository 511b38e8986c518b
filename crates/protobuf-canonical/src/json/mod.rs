//! Messages in protobuf's JSON, by their descriptors.
//!
//! Both ways are gone here, not by prost-reflect. The same message has to have the same hash from JSON and from binary: what
//! prost-reflect reads cannot say that a zero is negative, numbers of 32 bits are rounded twice, integers beyond their range are cut,
//! and of fields given twice one is dropped. What is read, and as what, is what protobuf-go's protojson reads; where it is not,
//! `tests/canonical/json.rs` says why.

mod duration;
mod error;
mod field_mask;
mod integer;
mod parser;
mod scalar;
mod serializer;
mod timestamp;
mod well_known;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::DeserializeSeed as _;

pub use self::error::JsonError;
use self::{parser::MessageParser, serializer::MessageSerializer};
use crate::Canonical;

/// Reads and writes messages in protobuf's JSON.
#[derive(Debug)]
pub struct Json {
    ignore_unknown_fields: bool,
    /// Of the types that were found in an `Any`, by name.
    canonical: Mutex<HashMap<String, Arc<Canonical>>>,
}

impl Json {
    /// A reader and writer. With `ignore_unknown_fields`, fields and enum values that a message's type does not have are left out
    /// when it is read, as connect-go does; without, they are errors.
    pub fn new(ignore_unknown_fields: bool) -> Self {
        Self { ignore_unknown_fields, canonical: Mutex::default() }
    }

    /// The binary encoding of a message in JSON: every field that is there, defaults included, so not the canonical one.
    /// Nothing is left out or overwritten silently.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if `json` is not such a message; it says where and why, and quotes at most 1 KiB.
    pub fn decode(&self, message: &MessageDescriptor, json: &[u8]) -> Result<Bytes, JsonError> {
        let invalid = |error| JsonError::invalid(message, error);
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let binary = MessageParser::new(message, self).deserialize(&mut deserializer).map_err(invalid)?;
        deserializer.end().map_err(invalid)?;
        Ok(binary.into())
    }

    /// The JSON of a message in its binary encoding.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if `binary` is not such a message, or is nested too deep.
    pub fn encode(&self, message: MessageDescriptor, binary: Bytes) -> Result<Bytes, JsonError> {
        let decoded = DynamicMessage::decode(message, binary).map_err(JsonError::unreadable)?;
        serde_json::to_vec(&MessageSerializer::new(&decoded)).map(Bytes::from).map_err(JsonError::unwritable)
    }

    fn canonical(&self, message: &MessageDescriptor) -> Arc<Canonical> {
        let mut known = self.canonical.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(message.full_name().to_owned()).or_insert_with(|| Arc::new(Canonical::new(message))))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_reflect::{DescriptorPool, ReflectMessage as _};
    use prost_types::Any;

    use super::{error::MAX_TEXT, *};

    fn read(message: &str, json: &str) -> Result<Vec<u8>, String> {
        let message = DescriptorPool::global().get_message_by_name(message).expect("a known message");
        let binary = Json::new(false).decode(&message, json.as_bytes());
        binary.map(|binary| binary.to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_well_known_types_in_their_own_forms() {
        for (message, json, binary) in [
            ("google.protobuf.Empty", "{}", b"".as_slice()),
            ("google.protobuf.Int32Value", "7", b"\x08\x07"),
            ("google.protobuf.DoubleValue", "-0.0", b"\x09\0\0\0\0\0\0\0\x80"),
            ("google.protobuf.Duration", r#""1.5s""#, b"\x08\x01\x10\x80\xca\xb5\xee\x01"),
            ("google.protobuf.FieldMask", r#""a,bC""#, b"\x0a\x01a\x0a\x03b_c"),
            ("google.protobuf.Value", "null", b"\x08\0"),
            ("google.protobuf.Value", r#""a""#, b"\x1a\x01a"),
            ("google.protobuf.ListValue", "[true, []]", b"\x0a\x02\x20\x01\x0a\x02\x32\0"),
            ("google.protobuf.Struct", r#"{"a": null}"#, b"\x0a\x07\x0a\x01a\x12\x02\x08\0"),
            ("google.protobuf.Any", "{}", b""),
            (
                "google.protobuf.Any",
                r#"{"value": 1, "@type": "x/google.protobuf.Int32Value"}"#,
                b"\x0a\x1cx/google.protobuf.Int32Value\x12\x02\x08\x01",
            ),
        ] {
            assert_eq!(read(message, json).as_deref(), Ok(binary), "{message} {json}");
        }
    }

    /// In the message itself as in those within it, the error says where.
    #[test]
    fn says_what_is_wrong() {
        for (json, expected) in [
            (r#"{"name": "a", "name": "b"}"#, r#""name" is there twice"#),
            (r#"{"type_url": "", "typeUrl": ""}"#, r#""typeUrl" is there twice"#),
            (r#"{"none": 1}"#, r#""none" is no field of google.protobuf.Field"#),
            (r#"{"number": 1e10}"#, "1e10 is out of range"),
            (r#"{"number": 0.5}"#, "0.5 is no integer"),
            (r#"{"packed": 1}"#, "1 is neither true nor false"),
            (r#"{"kind": "TYPE_NONE"}"#, r#""TYPE_NONE" is no value of google.protobuf.Field.Kind"#),
            ("[]", "invalid type: sequence, expected an object with the fields of google.protobuf.Field"),
        ] {
            let error = read("google.protobuf.Field", json).expect_err("an error");
            assert!(error.contains(expected) && error.contains("at line 1 column"), "{json}: {error}");
        }
    }

    #[test]
    fn does_not_quote_all_of_what_is_wrong() {
        let json = format!(r#"{{"{}": 1}}"#, "\u{2713}".repeat(MAX_TEXT));
        let error = read("google.protobuf.Field", &json).expect_err("an error");
        assert!(error.len() <= MAX_TEXT && error.ends_with('\u{2713}'), "{error}");
    }

    #[test]
    fn an_any_in_an_any_is_not_followed_to_any_depth() {
        let nested = |levels| {
            (0..levels).fold(Any::default(), |any, _| Any {
                type_url: "a/google.protobuf.Any".to_owned(),
                value: any.encode_to_vec(),
            })
        };
        let encode =
            |levels| Json::new(false).encode(Any::default().descriptor(), nested(levels).encode_to_vec().into());
        assert!(encode(10).is_ok());
        for levels in [11, 5_000] {
            assert!(encode(levels).is_err(), "too deep: {levels}");
        }
    }
}
