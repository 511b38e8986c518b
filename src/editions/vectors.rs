//! protobuf-go's vectors for files in editions: `crates/protobuf-canonical/tests/vectors`.

use std::{collections::HashMap, fs, path::PathBuf};

use prost_reflect::{DescriptorPool, MessageDescriptor};
use protobuf_canonical::{Canonical, json::Json};
use serde_json::Value;

/// Reads a file of the vectors.
pub(super) fn read(name: &str) -> Vec<u8> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crates/protobuf-canonical/tests/vectors");
    fs::read(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn vectors(name: &str) -> Vec<Value> {
    serde_json::from_slice(&read(name)).expect("the vectors can be read")
}

fn pool() -> DescriptorPool {
    super::pool(&read("editions.binpb")).expect("descriptors")
}

fn text<'a>(vector: &'a Value, member: &str) -> &'a str {
    vector[member].as_str().unwrap_or_else(|| panic!("{member} of {vector}"))
}

fn is_refused(vector: &Value) -> bool {
    vector["error"].as_bool().unwrap_or_default()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn message(pool: &DescriptorPool, vector: &Value) -> MessageDescriptor {
    pool.get_message_by_name(text(vector, "message")).expect("a message")
}

/// Numbers as JavaScript has them: `1` is `1.0`.
fn normal(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(normal).collect(),
        Value::Number(number) => number.as_f64().into(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, normal(value))).collect(),
        value => value,
    }
}

fn assert_none(failures: &[String], of: usize) {
    assert!(failures.is_empty(), "{} of {of} vectors:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn encodes_every_vector_like_protobuf_go() {
    let (pool, vectors) = (pool(), vectors("editions.json"));
    assert!(vectors.len() > 250, "{} vectors", vectors.len());
    let mut canonicals = HashMap::new();
    let mut failures = Vec::new();
    for vector in &vectors {
        let canonical = canonicals
            .entry(text(vector, "message").to_owned())
            .or_insert_with(|| Canonical::new(&message(&pool, vector)));
        let input = bytes(text(vector, "input"));
        let (actual, name) = (canonical.encode(&input), text(vector, "name"));
        match (is_refused(vector), actual) {
            (true, Err(_)) => {}
            (true, Ok(actual)) => failures.push(format!("{name}: accepted as {actual:x?}")),
            (false, Err(error)) => failures.push(format!("{name}: refused: {error}")),
            (false, Ok(actual)) => {
                let expected = bytes(text(vector, "canonical"));
                if *actual != *expected {
                    failures.push(format!("{name}:\n     actual   {actual:x?}\n     expected {expected:x?}"));
                }
            }
        }
    }
    assert_none(&failures, vectors.len());
}

#[test]
fn reads_and_writes_every_text_like_protobuf_go() {
    let (pool, json, vectors) = (pool(), Json::new(false), vectors("editions_json.json"));
    assert!(vectors.len() > 140, "{} vectors", vectors.len());
    let mut failures = Vec::new();
    for vector in &vectors {
        let (descriptor, name) = (message(&pool, vector), text(vector, "name"));
        let binary = match (is_refused(vector), json.decode(&descriptor, text(vector, "json").as_bytes())) {
            (true, Err(_)) => continue,
            (true, Ok(binary)) => {
                failures.push(format!("{name}: accepted as {binary:x?}"));
                continue;
            }
            (false, Err(error)) => {
                failures.push(format!("{name}: refused: {error}"));
                continue;
            }
            (false, Ok(binary)) => binary,
        };
        let canonical = Canonical::new(&descriptor).encode(&binary).expect("a message").into_owned();
        let expected = bytes(text(vector, "canonical"));
        if canonical != expected {
            failures.push(format!("{name}:\n     actual   {canonical:x?}\n     expected {expected:x?}"));
        }
        // As a handler may write it: with every field of the text, defaults included.
        for binary in [canonical.into(), binary] {
            let written = json.encode(descriptor.clone(), binary).expect("JSON");
            let written = normal(serde_json::from_slice(&written).expect("JSON"));
            let expected = normal(serde_json::from_str(text(vector, "written")).expect("JSON"));
            if written != expected {
                failures.push(format!("{name}: wrote\n     actual   {written}\n     expected {expected}"));
            }
        }
    }
    assert_none(&failures, vectors.len());
}
