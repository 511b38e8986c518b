//! The JSON reader and writer against protobuf-go's protojson, vector by vector. See `tests/vectors/README.md`.

use std::sync::LazyLock;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use protobuf_canonical::{
    Canonical,
    json::{Json, JsonError},
};
use serde::Deserialize;
use serde_json::Value;

use crate::schema;

/// The vectors on which the crate differs from protojson, and why.
const DIFFERENCES: [Difference; 14] = [
    Difference {
        name: "integers/not-json-but-accepted/",
        ours: Ours::Refused,
        why: "an exponent without digits is not JSON, but protojson accepts it",
    },
    Difference {
        name: "floats/fDouble/nan",
        ours: Ours::Accepted("09000000000000f87f"),
        why: "Go's NaN has one more bit set than other languages' NaN, and a NaN must be the same in JSON and in binary",
    },
    Difference {
        name: "null/list-of-what-may-be-null/",
        ours: Ours::Accepted(""),
        why: "by protobuf's documentation, null is an empty list of any type; protojson refuses it for these two types",
    },
    Difference {
        name: "timestamps/more-than-nanoseconds-behind-a-comma",
        ours: Ours::Refused,
        why: "protojson refuses more than nine digits after a point, but truncates them after a comma",
    },
    too_deep("depth/messages/101"),
    too_deep("depth/messages/127"),
    too_deep("depth/messages/200"),
    too_deep("depth/lists/51"),
    too_deep("depth/lists/120"),
    too_deep("depth/lists/200"),
    too_deep("depth/any-in-any/9"),
    too_deep("depth/any-in-any/12"),
    too_deep("depth/structs/60"),
    too_deep("depth/any-of-lists/60"),
];

const fn too_deep(name: &'static str) -> Difference {
    Difference {
        name,
        ours: Ours::Refused,
        why: "the limit is 100 levels, as in binary, and an Any counts for ten; protojson's limit is 10000",
    }
}

/// The vectors that change when they are written, or that cannot be written, and why.
const LOST: [(&str, &str); 3] = [
    ("null/null-value-with-another-number", "protojson also writes null for it"),
    ("anys/field-called-type", "protojson also writes \"@type\" twice for it"),
    ("depth/structs/34", "prost counts map entries as messages, so the depth exceeds 100"),
];

struct Difference {
    /// The name of a vector; a name that ends with a slash is a prefix.
    name: &'static str,
    ours: Ours,
    why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Accepted(&'static str),
    Refused,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    message: String,
    json: Option<String>,
    base64: Option<String>,
    canonical: Option<String>,
    /// As protojson writes the message.
    written: Option<String>,
    #[serde(default)]
    error: bool,
}

impl Vector {
    fn body(&self) -> Bytes {
        match (&self.json, &self.base64) {
            (Some(text), None) => text.clone().into(),
            (None, Some(text)) => BASE64_STANDARD.decode(text).expect("base64").into(),
            _ => panic!("{}: one text", self.name),
        }
    }

    /// Returns the canonical encoding; `None` if protojson refuses the text.
    fn expected(&self) -> Option<String> {
        assert_eq!(self.canonical.is_none(), self.error, "{}", self.name);
        self.canonical.clone()
    }

    fn difference(&self) -> Option<&'static Difference> {
        DIFFERENCES.iter().find(|it| self.is_in(it.name))
    }

    fn is_in(&self, name: &str) -> bool {
        self.name == name || name.ends_with('/') && self.name.starts_with(name)
    }
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../vectors/json.json")).expect("the vectors can be read")
}

#[test]
fn reads_what_protojson_reads() {
    let vectors = vectors();
    assert!(vectors.len() > 1500, "{} vectors", vectors.len());
    let mut failures = Vec::new();
    for vector in &vectors {
        let outcome = echo(&vector.message, &vector.body());
        let canonical = outcome.message.as_ref().ok().map(|message| canonical(&vector.message, message));
        let (name, expected) = (&vector.name, vector.expected());
        let expected = match vector.difference() {
            None => expected,
            Some(Difference { ours, why, .. }) => {
                let ours = match ours {
                    Ours::Accepted(bytes) => Some(bytes.to_string()),
                    Ours::Refused => None,
                };
                if ours == expected {
                    failures.push(format!("{name}: no longer differs: {why}"));
                }
                ours
            }
        };
        if canonical != expected {
            failures
                .push(format!("{name}: {:?}\n     actual   {canonical:?}\n     expected {expected:?}", vector.body()));
        }
    }
    for Difference { name, .. } in &DIFFERENCES {
        if !vectors.iter().any(|vector| vector.is_in(name)) {
            failures.push(format!("{name} is not a vector"));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), vectors.len(), failures.join("\n"));
}

/// Uses the crate's own reader, which the other test compares with protojson.
#[test]
fn a_message_is_written_as_protojson_writes_it_and_reads_back_as_the_same_message() {
    let mut failures = Vec::new();
    let vectors = vectors();
    for (name, why) in LOST {
        assert!(vectors.iter().any(|vector| vector.is_in(name)), "{name} is not a vector: {why}");
    }
    for vector in vectors {
        let (name, outcome) = (&vector.name, echo(&vector.message, &vector.body()));
        let Ok(message) = outcome.message else { continue };
        let again = outcome.text.as_ref().and_then(|text| echo(&vector.message, text).message.ok());
        let is_same =
            again.is_some_and(|again| canonical(&vector.message, &again) == canonical(&vector.message, &message));
        if is_same == LOST.iter().any(|(name, _)| vector.is_in(name)) {
            failures.push(format!("{name}: {:?} reads back as the same message: {is_same}", outcome.text));
        }
        if let (Some(written), Some(text)) = (&vector.written, &outcome.text)
            && value(written.as_bytes()) != value(text)
        {
            failures.push(format!("{name}:\n     {written:?}\n     {text:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Parses JSON in a form in which the spelling of numbers does not matter.
fn value(json: &[u8]) -> Value {
    fn written_alike(value: Value) -> Value {
        match value {
            Value::Number(number) => number.as_f64().into(),
            Value::Array(list) => list.into_iter().map(written_alike).collect(),
            // Both accept an Empty with or without a value.
            Value::Object(mut members)
                if members
                    .get("@type")
                    .and_then(Value::as_str)
                    .is_some_and(|of| of.ends_with("/google.protobuf.Empty")) =>
            {
                members.remove("value");
                members.into()
            }
            Value::Object(members) => members.into_iter().map(|(name, value)| (name, written_alike(value))).collect(),
            value => value,
        }
    }
    written_alike(serde_json::from_slice(json).expect("JSON"))
}

/// Returns the canonical encoding in hex, or the text of the error.
fn canonical(message: &str, binary: &[u8]) -> String {
    Canonical::new(&schema::message(message)).encode(binary).map_or_else(|error| error.to_string(), hex::encode)
}

/// The result of reading a message and writing it again.
struct Outcome {
    /// The message in binary, or the reason for its refusal.
    message: Result<Bytes, JsonError>,
    /// The message in JSON again; `None` if it was refused or cannot be written.
    text: Option<Bytes>,
}

fn echo(message: &str, json: &[u8]) -> Outcome {
    static JSON: LazyLock<Json> = LazyLock::new(|| Json::new(false));
    let descriptor = schema::message(message);
    let message = JSON.decode(&descriptor, json);
    let text = message.as_ref().ok().and_then(|binary| JSON.encode(descriptor, binary.clone()).ok());
    Outcome { message, text }
}
