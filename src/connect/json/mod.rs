//! Messages in protobuf's JSON, by their descriptors.
//!
//! Both ways are gone here, not by prost-reflect. The same message has to have the same hash from JSON and from binary: what
//! prost-reflect reads cannot say that a zero is negative, numbers of 32 bits are rounded twice, integers beyond their range are cut,
//! and of fields given twice one is dropped. What is read, and as what, is what protobuf-go's protojson reads; where it is not,
//! `tests/canonical/json.rs` says why.

mod duration;
mod field_mask;
mod integer;
mod message;
mod scalar;
mod special;
mod timestamp;
mod written;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use connectrpc::ConnectError;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::DeserializeSeed as _;

use self::{message::Message, written::Written};
use crate::canonical::Canonical;

/// The longest text of an error, in bytes: it quotes what is wrong, which may be of any length.
const MAX_TEXT: usize = 1 << 10;

/// Messages as JSON.
#[derive(Debug)]
pub(super) struct Json {
    ignore_unknown_fields: bool,
    /// Of the types that were found in an `Any`, by name.
    canonical: Mutex<HashMap<String, Arc<Canonical>>>,
}

impl Json {
    pub(super) fn new(ignore_unknown_fields: bool) -> Self {
        Self { ignore_unknown_fields, canonical: Mutex::default() }
    }

    /// The binary encoding of a message in JSON. Nothing in it is left out or overwritten unsaid.
    pub(super) fn decode(&self, message: &MessageDescriptor, json: &[u8]) -> Result<Bytes, ConnectError> {
        let invalid = |error: serde_json::Error| {
            let mut what = format!("the request is no {} in JSON: {error}", message.full_name());
            what.truncate(what.floor_char_boundary(MAX_TEXT));
            ConnectError::invalid_argument(what)
        };
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let binary = Message::new(message, self).deserialize(&mut deserializer).map_err(invalid)?;
        deserializer.end().map_err(invalid)?;
        Ok(binary.into())
    }

    /// A message in JSON.
    pub(super) fn encode(&self, message: MessageDescriptor, binary: Bytes) -> Result<Bytes, ConnectError> {
        let unreadable = |error: &dyn std::fmt::Display| {
            ConnectError::internal(format!("the response cannot be written as JSON: {error}"))
        };
        let decoded = DynamicMessage::decode(message, binary).map_err(|error| unreadable(&error))?;
        serde_json::to_vec(&Written::new(&decoded)).map(Bytes::from).map_err(|error| unreadable(&error))
    }

    fn canonical(&self, message: &MessageDescriptor) -> Arc<Canonical> {
        let mut known = self.canonical.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(message.full_name().to_owned()).or_insert_with(|| Arc::new(Canonical::new(message))))
    }
}

#[cfg(test)]
mod tests {
    use connectrpc::ErrorCode;
    use prost::Message as _;
    use prost_reflect::{DescriptorPool, ReflectMessage as _};
    use prost_types::Any;

    use super::*;

    fn read(message: &str, json: &str) -> Result<Vec<u8>, String> {
        let message = DescriptorPool::global().get_message_by_name(message).expect("a known message");
        let binary = Json::new(false).decode(&message, json.as_bytes());
        binary.map(|binary| binary.to_vec()).map_err(|error| error.message.unwrap_or_default())
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
            assert_eq!(encode(levels).expect_err("too deep").code, ErrorCode::Internal);
        }
    }
}
