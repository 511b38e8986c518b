//! The same messages in many encodings. `protobuf-canonical` has vectors of all types; these are for what is between a client and it.

use tonic_idempotency_tests::catalog::proto::{Part, item::Choice};

use crate::prelude::*;

/// A message in all of its encodings.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The first encoding is the canonical one.
    pub(crate) binary: Vec<Vec<u8>>,
    pub(crate) json: Vec<String>,
}

fn row(name: &'static str, binary: impl Into<Vec<Vec<u8>>>, json: &[&str]) -> Row {
    Row { name, binary: binary.into(), json: json.iter().map(ToString::to_string).collect() }
}

fn item(item: Item) -> Vec<u8> {
    item.encode_to_vec()
}

pub(crate) fn rows() -> Vec<Row> {
    let entry = |number, key: Vec<u8>, value: Vec<u8>| bytes(number, &joined([key, value]));
    let nested = Part {
        part_name: "outer".to_owned(),
        amount: 1,
        inner: Some(Box::new(Part { part_name: "inner".to_owned(), amount: 2, inner: None })),
    };
    let time = prost_types::Timestamp { seconds: 1_700_000_000, nanos: 500_000_000 };
    let part = Part { part_name: "p".to_owned(), amount: 4, inner: None };
    let type_url = "type.googleapis.com/catalog.v1.Part".to_owned();
    let any = prost_types::Any { type_url, value: part.encode_to_vec() };
    vec![
        row(
            "nothing",
            [vec![], number(5, 0), text(15, ""), fixed64(2, 0)],
            &[
                "{}",
                " { } ",
                r#"{"int64": "0", "string": "", "double": 0, "bool": false, "color": 0}"#,
                r#"{"int64": null, "part": null, "strings": null, "byString": null, "timestamp": null, "choiceText": null}"#,
                r#"{"strings": [], "byString": {}, "bytes": ""}"#,
            ],
        ),
        row(
            "integers of 64 bits",
            [
                item(Item { int64: i64::MIN, uint64: u64::MAX, sint64: i64::MIN, sfixed64: -1, ..Item::default() }),
                joined([fixed64(13, u64::MAX), zigzag(9, i64::MIN), number(7, u64::MAX), number(5, i64::MIN as u64)]),
            ],
            &[
                r#"{"int64": "-9223372036854775808", "uint64": "18446744073709551615", "sint64": "-9223372036854775808", "sfixed64": "-1"}"#,
                r#"{"int64": -9223372036854775808, "uint64": 18446744073709551615, "sint64": -9223372036854775808, "sfixed64": -1}"#,
                r#"{"sfixed64": -1.0, "sint64": "-9223372036854775808", "uint64": 18446744073709551615, "int64": -9223372036854775808}"#,
            ],
        ),
        row(
            "text",
            [item(Item { string: "a\"\\/\u{8}\u{2713}\u{1f600}\n".to_owned(), bool: true, ..Item::default() })],
            &[
                "{\"string\": \"a\\\"\\\\/\\b\u{2713}\u{1f600}\\n\", \"bool\": true}",
                r#"{"bool": true, "string": "\u0061\u0022\u005c\/\u0008\u2713\ud83d\ude00\u000a"}"#,
                r#"{"\u0062ool": true, "str\u0069ng": "a\"\\/\b\u2713\uD83D\uDE00\n"}"#,
            ],
        ),
        row(
            "bytes",
            [item(Item { bytes: vec![0xfb, 0xff, 0xfe, 0x01], ..Item::default() })],
            &[
                r#"{"bytes": "+//+AQ=="}"#,
                r#"{"bytes": "+//+AQ"}"#,
                r#"{"bytes": "-__-AQ=="}"#,
                r#"{"bytes": "-__-AQ"}"#,
            ],
        ),
        row(
            "a decimal between two doubles",
            [item(Item { double: 9_007_199_254_740_992.0, ..Item::default() })],
            &[
                r#"{"double": 9007199254740992}"#,
                r#"{"double": "9007199254740993"}"#,
                r#"{"double": 9007199254740993}"#,
                r#"{"double": 9007199254740993.0}"#,
            ],
        ),
        row(
            "minus zero",
            [joined([fixed64(2, (-0.0_f64).to_bits()), fixed32(3, (-0.0_f32).to_bits())])],
            &[
                r#"{"double": -0.0, "float": -0.0}"#,
                r#"{"double": -0, "float": -0}"#,
                r#"{"double": "-0", "float": "-0"}"#,
            ],
        ),
        row(
            "the last field of a oneof",
            [
                item(Item { choice: Some(Choice::ChoiceNumber(0)), ..Item::default() }),
                joined([text(22, "first"), number(23, 0)]),
            ],
            &[r#"{"choiceNumber": "0"}"#, r#"{"choice_number": 0}"#, r#"{"choiceText": null, "choiceNumber": 0}"#],
        ),
        row(
            "numbers, packed or not",
            [
                item(Item { packed_numbers: vec![1, 2, 300], unpacked_numbers: vec![4, 5], ..Item::default() }),
                joined([number(30, 1), number(30, 2), number(30, 300), bytes(31, &[4, 5])]),
                joined([bytes(31, &[4]), bytes(30, &[1, 2]), number(31, 5), number(30, 300)]),
            ],
            &[
                r#"{"packedNumbers": [1, 2, 300], "unpackedNumbers": [4, 5]}"#,
                r#"{"unpacked_numbers": ["4", 5.0], "packed_numbers": [1, "2", 3e2]}"#,
            ],
        ),
        row(
            "a map with string keys",
            [
                joined([entry(40, text(1, "a"), text(2, "1")), entry(40, text(1, "b"), text(2, "2"))]),
                joined([entry(40, text(1, "b"), text(2, "2")), entry(40, text(2, "1"), text(1, "a"))]),
                joined([
                    entry(40, text(1, "a"), text(2, "x")),
                    entry(40, text(1, "b"), text(2, "2")),
                    entry(40, text(1, "a"), text(2, "1")),
                ]),
            ],
            &[r#"{"byString": {"a": "1", "b": "2"}}"#, r#"{"by_string": {"b": "2", "\u0061": "1"}}"#],
        ),
        row(
            "a part in pieces",
            [
                item(Item { part: Some(nested), ..Item::default() }),
                joined([
                    bytes(50, &joined([bytes(3, &number(2, 2)), number(2, 9)])),
                    bytes(50, &joined([number(2, 1), text(1, "outer"), bytes(3, &text(1, "inner"))])),
                ]),
            ],
            &[
                r#"{"part": {"partName": "outer", "amount": "1", "inner": {"partName": "inner", "amount": "2"}}}"#,
                r#"{"part": {"inner": {"amount": 2, "part_name": "inner", "inner": null}, "amount": 1, "part_name": "outer"}}"#,
            ],
        ),
        row(
            "a timestamp",
            [
                item(Item { timestamp: Some(time), ..Item::default() }),
                bytes(60, &joined([number(2, 500_000_000), number(1, 1_700_000_000)])),
            ],
            &[
                r#"{"timestamp": "2023-11-14T22:13:20.500Z"}"#,
                r#"{"timestamp": "2023-11-14T22:13:20.5Z"}"#,
                r#"{"timestamp": "2023-11-15T00:13:20.500000000+02:00"}"#,
                r#"{"timestamp": "2023-11-14T16:43:20.500000-05:30"}"#,
            ],
        ),
        row(
            "any JSON",
            [joined([
                bytes(
                    63,
                    &joined([
                        bytes(1, &joined([text(1, "a"), bytes(2, &fixed64(2, 1.0_f64.to_bits()))])),
                        bytes(1, &joined([text(1, "b"), bytes(2, &number(1, 0))])),
                    ]),
                ),
                bytes(64, &text(3, "x")),
                bytes(65, &joined([bytes(1, &number(4, 1)), bytes(1, &bytes(5, &[]))])),
            ])],
            &[
                r#"{"struct": {"a": 1, "b": null}, "value": "x", "listValue": [true, {}]}"#,
                r#"{"list_value": [true, {}], "value": "\u0078", "struct": {"b": null, "a": 1.0}}"#,
                r#"{"struct": {"b": null, "a": 10e-1}, "value": "x", "listValue": [ true , { } ]}"#,
            ],
        ),
        row(
            "a part in an Any",
            [item(Item { any: Some(any), ..Item::default() })],
            &[
                r#"{"any": {"@type": "type.googleapis.com/catalog.v1.Part", "partName": "p", "amount": "4"}}"#,
                r#"{"any": {"amount": 4, "part_name": "p", "@type": "type.googleapis.com/catalog.v1.Part"}}"#,
                r#"{"any": {"amount": 4, "@type": "type.googleapis.com/catalog.v1.Part", "partName": "p", "inner": null}}"#,
            ],
        ),
        row(
            "wrapped values",
            [joined([
                bytes(70, &number(1, 1)),
                bytes(71, &bytes(1, &[0xfb, 0xff])),
                bytes(72, &fixed64(1, 0.5_f64.to_bits())),
                bytes(75, &number(1, u64::MAX)),
                bytes(76, &text(1, "s")),
                bytes(78, &number(1, u64::MAX)),
            ])],
            &[
                r#"{"boolValue": true, "bytesValue": "+/8=", "doubleValue": 0.5, "int64Value": "-1", "stringValue": "s", "uint64Value": "18446744073709551615"}"#,
                r#"{"stringValue": "\u0073", "int64Value": -1, "uint64Value": 18446744073709551615, "doubleValue": "0.5", "bytesValue": "-_8", "boolValue": true}"#,
            ],
        ),
    ]
}

/// Concatenates pieces of a message.
pub(crate) fn joined<const N: usize>(pieces: [Vec<u8>; N]) -> Vec<u8> {
    pieces.concat()
}

/// A varint field.
pub(crate) fn number(field: u32, value: u64) -> Vec<u8> {
    let mut bytes = tag(field, 0);
    prost::encoding::encode_varint(value, &mut bytes);
    bytes
}

fn zigzag(field: u32, value: i64) -> Vec<u8> {
    number(field, ((value << 1) ^ (value >> 63)) as u64)
}

pub(crate) fn text(field: u32, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

pub(crate) fn bytes(field: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = tag(field, 2);
    prost::encoding::encode_varint(value.len() as u64, &mut bytes);
    bytes.extend(value);
    bytes
}

pub(crate) fn fixed64(field: u32, bits: u64) -> Vec<u8> {
    [tag(field, 1), bits.to_le_bytes().to_vec()].concat()
}

fn fixed32(field: u32, bits: u32) -> Vec<u8> {
    [tag(field, 5), bits.to_le_bytes().to_vec()].concat()
}

fn tag(field: u32, wire: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(u64::from(field) << 3 | wire, &mut bytes);
    bytes
}
