//! Protobuf's JSON, read and written by message descriptors.
//!
//! A message must have the same hash in JSON and in binary, so prost-reflect's own JSON reader is not exact enough: it
//! loses the sign of a negative zero, rounds 32-bit numbers twice, truncates integers that are out of range, and drops
//! one value of a duplicate field. This reader accepts the same JSON as protobuf-go's protojson and gives it the same
//! meaning; `tests/canonical/json.rs` lists the exceptions and the reasons.

mod any_json;
mod binary;
mod duration;
mod encoders;
mod error;
mod field;
mod field_mask;
mod integer;
mod message;
mod parser;
mod scalar;
mod seen;
mod serializer;
pub(crate) mod strip;
mod text;
mod timestamp;
mod well_known;
mod well_known_type;

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::DeserializeSeed as _;

pub use self::error::JsonError;
use self::{encoders::Encoders, parser::MessageParser, serializer::MessageSerializer};

/// Reads and writes messages in protobuf's JSON.
#[derive(Debug)]
pub struct Json {
    ignore_unknown_fields: bool,
    encoders: Encoders,
}

impl Json {
    /// Creates a reader and writer. With `ignore_unknown_fields`, the reader ignores unknown fields and enum values, as
    /// connect-go does; otherwise they are errors.
    pub fn new(ignore_unknown_fields: bool) -> Self {
        Self { ignore_unknown_fields, encoders: Encoders::default() }
    }

    /// Converts a message from JSON to binary. The result is not canonical: it holds every field of the JSON, defaults
    /// included. No known field is dropped or overwritten silently.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if `json` is not a message of this type. The error names the place and the reason, and is at most
    /// 1 KiB long.
    pub fn decode(&self, message: &MessageDescriptor, json: &[u8]) -> Result<Bytes, JsonError> {
        let invalid = |error| JsonError::invalid(message, error);
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let parser = MessageParser::new(message, self.ignore_unknown_fields, &self.encoders);
        let binary = parser.deserialize(&mut deserializer).map_err(invalid)?;
        deserializer.end().map_err(invalid)?;
        Ok(binary.into())
    }

    /// Converts a message from binary to JSON.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if `binary` is not a message of this type, is nested more than 100 levels deep (an `Any` counts
    /// for ten), or holds an `Any` of an unknown type.
    pub fn encode(&self, message: MessageDescriptor, binary: Bytes) -> Result<Bytes, JsonError> {
        let decoded = DynamicMessage::decode(message, binary).map_err(JsonError::unreadable)?;
        serde_json::to_vec(&MessageSerializer::new(&decoded)).map(Bytes::from).map_err(JsonError::unwritable)
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
            ("google.protobuf.Struct", " { } ", b""),
            ("google.protobuf.Value", "-0", b"\x11\0\0\0\0\0\0\0\x80"),
            ("google.protobuf.Value", "1E1", b"\x11\0\0\0\0\0\0\x24\x40"),
            ("google.protobuf.Value", r#""\u0061\"\\""#, b"\x1a\x03a\"\\"),
            ("google.protobuf.Value", "\"\u{2713}\"", b"\x1a\x03\xe2\x9c\x93"),
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

    #[test]
    fn an_error_names_the_reason_and_the_place() {
        for (json, expected) in [
            (r#"{"name": "a", "name": "b"}"#, r#"duplicate field "name""#),
            (r#"{"type_url": "", "typeUrl": ""}"#, r#"duplicate field "typeUrl""#),
            (r#"{"none": 1}"#, r#"unknown field "none" of google.protobuf.Field"#),
            (r#"{"number": 1e10}"#, "1e10 is out of range"),
            (r#"{"number": 0.5}"#, "0.5 is not an integer"),
            (r#"{"packed": 1}"#, "1 is not a boolean: expected true or false"),
            (r#"{"kind": "TYPE_NONE"}"#, r#"unknown value "TYPE_NONE" of enum google.protobuf.Field.Kind"#),
            ("[]", "invalid type: sequence, expected an object with the fields of google.protobuf.Field"),
        ] {
            let error = read("google.protobuf.Field", json).expect_err("an error");
            assert!(error.contains(expected) && error.contains("at line 1 column"), "{json}: {error}");
        }
    }

    #[test]
    fn refuses_any_json_that_is_no_value() {
        for (message, json) in [
            ("google.protobuf.Value", "1e999"),
            ("google.protobuf.Value", "01"),
            ("google.protobuf.Value", "1."),
            ("google.protobuf.Value", "NaN"),
            ("google.protobuf.Value", "nul"),
            ("google.protobuf.Value", "[1,]"),
            ("google.protobuf.Value", "[1 2]"),
            ("google.protobuf.Value", "[1"),
            ("google.protobuf.Value", r#""\ud800""#),
            ("google.protobuf.Value", r#""\"#),
            ("google.protobuf.Value", r#"{"a": 1, "\u0061": 2}"#),
            ("google.protobuf.Value", "1 1"),
            ("google.protobuf.Struct", "[]"),
            ("google.protobuf.Struct", "{1: 1}"),
            ("google.protobuf.ListValue", "{}"),
        ] {
            assert!(read(message, json).is_err(), "{message} {json}");
        }
    }

    #[test]
    fn truncates_the_text_of_an_error_that_quotes_a_long_name() {
        let json = format!(r#"{{"{}": 1}}"#, "\u{2713}".repeat(MAX_TEXT));
        let error = read("google.protobuf.Field", &json).expect_err("an error");
        assert!(error.len() <= MAX_TEXT && error.ends_with('\u{2713}'), "{error}");
    }

    #[test]
    fn does_not_write_more_than_ten_nested_anys() {
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
