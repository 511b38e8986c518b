//! The memory that hostile messages take.

use hostile_messages::{Shape, descriptor, hostile, json, plain};
use protobuf_canonical::{Canonical, CanonicalErrorKind, json::Json};

/// Large enough that the constant allowance for messages of any size does not count.
const SIZE: usize = 1 << 20;

const FACTOR: f64 = 3.0;

/// The peak of the memory for a message, in sizes of the message: the message as it arrived, once more as it is handed to
/// the handler, and what the hash takes.
fn hash(canonical: &Canonical, shape: &Shape) -> f64 {
    let mut hash = None;
    let info = allocation_counter::measure(|| hash = Some(canonical.hashes(&shape.message)));
    if let Err(error) = hash.expect("it ran") {
        assert_eq!(error.kind(), CanonicalErrorKind::TooCostly, "{}", shape.name);
    }
    (info.bytes_max as f64 + 2.0 * shape.message.len() as f64) / shape.message.len() as f64
}

#[test]
fn messages_take_at_most_three_times_the_memory_of_plain_ones() {
    let canonical = Canonical::new(&descriptor());
    let [canonical_one, _] = &plain(SIZE);
    let plain = hash(&canonical, canonical_one);
    let over: Vec<_> = hostile(SIZE)
        .iter()
        .map(|shape| (shape.name, hash(&canonical, shape) / plain))
        .filter(|(_, ratio)| *ratio > FACTOR)
        .collect();
    assert!(over.is_empty(), "× the memory of a plain message: {over:.1?}");
}

/// The peak of the memory while a message is read from JSON, in sizes of the text, itself included.
fn read(json: &Json, shape: &Shape) -> f64 {
    let mut read = None;
    let info = allocation_counter::measure(|| read = Some(json.decode(&descriptor(), &shape.message)));
    drop(read);
    (info.bytes_max as f64 + shape.message.len() as f64) / shape.message.len() as f64
}

#[test]
fn messages_in_json_take_at_most_three_times_the_memory_of_plain_ones() {
    for ignore_unknown_fields in [false, true] {
        let (json_reader, shapes) = (Json::new(ignore_unknown_fields), json(SIZE));
        let (plain, hostile) = shapes.split_first().expect("a plain one is first");
        let plain = read(&json_reader, plain);
        let over: Vec<_> = hostile
            .iter()
            .map(|shape| (shape.name, read(&json_reader, shape) / plain))
            .filter(|(_, ratio)| *ratio > FACTOR)
            .collect();
        assert!(over.is_empty(), "× the memory of a plain message, which is {plain}: {over:.1?}");
    }
}
