//! The same messages in many encodings.

use tonic_idempotency_tests::catalog::proto::{Color, Part, item::Choice};

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
    [scalars(), floats(), presence(), repeated(), maps(), messages(), well_known(), wrappers()]
        .into_iter()
        .flatten()
        .collect()
}

fn scalars() -> Vec<Row> {
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
            "integers of 32 bits",
            [
                item(Item { int32: -1, uint32: u32::MAX, sint32: i32::MIN, fixed32: 7, ..Item::default() }),
                // A negative value cut to 32 bits, and more bits than the field has.
                joined([fixed32(10, 7), zigzag(8, i32::MIN.into()), number(6, u64::MAX), number(4, u32::MAX.into())]),
            ],
            &[
                r#"{"int32": -1, "uint32": 4294967295, "sint32": -2147483648, "fixed32": 7}"#,
                r#"{"int32": "-1", "uint32": "4294967295", "sint32": "-2147483648", "fixed32": "7"}"#,
                r#"{"fixed32": 7e0, "int32": -1.0, "uint32": 4294967295.0, "sint32": -2.147483648e9}"#,
            ],
        ),
        row(
            "a padded number",
            [item(Item { int64: 1, ..Item::default() }), vec![0x28, 0x81, 0x80, 0x00], vec![0xa8, 0x80, 0x00, 0x01]],
            &[r#"{"int64": 1}"#, r#"{"int64": "1"}"#, r#"{"int64": 1e0}"#, "{\n\t\"int64\" :\r\n 10e-1 }"],
        ),
        row(
            "a number given twice",
            [item(Item { int64: 2, ..Item::default() }), joined([number(5, 1), number(5, 2)])],
            &[r#"{"int64": "2"}"#],
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
            "an enum",
            [item(Item { color: Color::Blue.into(), ..Item::default() })],
            &[r#"{"color": "COLOR_BLUE"}"#, r#"{"color": 2}"#],
        ),
        row("an unknown enum value", [item(Item { color: 77, ..Item::default() })], &[r#"{"color": 77}"#]),
        row(
            "another name",
            [item(Item { renamed: "x".to_owned(), int32: 1, ..Item::default() })],
            &[r#"{"anotherName": "x", "int32": 1}"#, r#"{"int32": 1, "renamed": "x"}"#],
        ),
    ]
}

fn floats() -> Vec<Row> {
    let double = |double| item(Item { double, ..Item::default() });
    let float = |float| item(Item { float, ..Item::default() });
    vec![
        row("one half", [double(0.5)], &[r#"{"double": 0.5}"#, r#"{"double": 5e-1}"#, r#"{"double": "0.5"}"#]),
        // A parser that does not round exactly is off by one in the last place.
        row(
            "a double that must be rounded",
            [double(EXACT)],
            &[
                r#"{"double": 97497.182552569170000}"#,
                r#"{"double": 97497.18255256917}"#,
                r#"{"double": "97497.18255256917"}"#,
                r#"{"double": 9749718255256917e-11}"#,
            ],
        ),
        row(
            "a decimal between two doubles",
            [double(9_007_199_254_740_992.0)],
            &[
                r#"{"double": 9007199254740992}"#,
                r#"{"double": "9007199254740993"}"#,
                r#"{"double": 9007199254740993}"#,
                r#"{"double": 9007199254740993.0}"#,
            ],
        ),
        // As a double, the value lies between two floats.
        row(
            "a float that must not be parsed as a double first",
            [float(TWICE_ROUNDED)],
            &[r#"{"float": "7.038531e-26"}"#, r#"{"float": 7.038531e-26}"#],
        ),
        row("the largest float", [float(f32::MAX)], &[r#"{"float": 3.4028235e38}"#, r#"{"float": "3.4028235e38"}"#]),
        row("the least double", [double(5e-324)], &[r#"{"double": 5e-324}"#, r#"{"double": 4.9406564584124654e-324}"#]),
        row("not a number", [fixed64(2, f64::NAN.to_bits())], &[r#"{"double": "NaN"}"#]),
        row(
            "infinity",
            [item(Item { double: f64::INFINITY, float: f32::NEG_INFINITY, ..Item::default() })],
            &[r#"{"double": "Infinity", "float": "-Infinity"}"#],
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
    ]
}

/// A parser that multiplies rounded powers of ten gets another value, such as serde_json without its feature
/// `float_roundtrip`.
pub(crate) const EXACT: f64 = 97_497.182_552_569_17;

/// The double nearest to 7.038531e-26 is between this float and the next.
const TWICE_ROUNDED: f32 = 7.038_531e-26;

fn presence() -> Vec<Row> {
    vec![
        row(
            "optional fields that are their defaults",
            [item(Item { optional_int64: Some(0), optional_string: Some(String::new()), ..Item::default() })],
            &[r#"{"optionalInt64": "0", "optionalString": ""}"#, r#"{"optional_string": "", "optional_int64": 0}"#],
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
            "null in a oneof",
            [item(Item { choice: Some(Choice::ChoiceNull(0)), ..Item::default() })],
            &[r#"{"choiceNull": null}"#, r#"{"choiceNull": "NULL_VALUE"}"#],
        ),
        row(
            "a part in a oneof",
            [item(Item { choice: Some(Choice::ChoicePart(Part { amount: 3, ..Part::default() })), ..Item::default() })],
            &[r#"{"choicePart": {"amount": "3"}}"#, r#"{"choice_part": {"partName": "", "amount": 3}}"#],
        ),
    ]
}

fn repeated() -> Vec<Row> {
    vec![
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
            "doubles",
            [
                item(Item { doubles: vec![0.0, f64::INFINITY, 1.5], ..Item::default() }),
                joined([fixed64(32, 0), fixed64(32, f64::INFINITY.to_bits()), fixed64(32, 1.5_f64.to_bits())]),
            ],
            &[r#"{"doubles": [0, "Infinity", 1.5]}"#, r#"{"doubles": ["0", "Infinity", 15e-1]}"#],
        ),
        row(
            "strings, parts and colors",
            [
                item(Item {
                    strings: vec![String::new(), "a".to_owned()],
                    colors: vec![0, 2, 1],
                    parts: vec![Part::default(), Part { amount: 1, ..Part::default() }],
                    ..Item::default()
                }),
                joined([
                    bytes(35, &[]),
                    bytes(35, &[0x0a, 0x00, 0x10, 0x01]),
                    number(34, 0),
                    bytes(34, &[2, 1]),
                    text(33, ""),
                    text(33, "a"),
                ]),
            ],
            &[
                r#"{"strings": ["", "a"], "colors": ["COLOR_UNSPECIFIED", "COLOR_BLUE", "COLOR_RED"], "parts": [{}, {"amount": "1"}]}"#,
                r#"{"parts": [{"partName": null}, {"amount": 1, "part_name": ""}], "colors": [0, 2, "COLOR_RED"], "strings": ["", "\u0061"]}"#,
            ],
        ),
    ]
}

fn maps() -> Vec<Row> {
    let entry = |number, key: Vec<u8>, value: Vec<u8>| bytes(number, &joined([key, value]));
    vec![
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
            "maps with number keys",
            [
                joined([
                    entry(41, number(1, (-1_i64) as u64), bytes(2, &[])),
                    entry(41, number(1, 0), bytes(2, &number(2, 5))),
                    entry(42, zigzag(1, i64::MIN), text(2, "least")),
                    entry(43, number(1, u64::MAX), number(2, 2)),
                ]),
                joined([
                    entry(43, number(2, 2), number(1, u64::MAX)),
                    entry(42, text(2, "least"), zigzag(1, i64::MIN)),
                    entry(41, vec![], bytes(2, &number(2, 5))),
                    entry(41, number(1, (-1_i64) as u64), vec![]),
                ]),
            ],
            &[
                r#"{"byInt32": {"-1": {}, "0": {"amount": "5"}}, "bySint64": {"-9223372036854775808": "least"}, "byUint64": {"18446744073709551615": "COLOR_BLUE"}}"#,
                r#"{"byUint64": {"18446744073709551615": 2}, "bySint64": {"-9223372036854775808": "least"}, "byInt32": {"0": {"amount": 5}, "-1": {}}}"#,
            ],
        ),
        row(
            "a map with boolean keys",
            [
                joined([entry(44, number(1, 0), number(2, 0)), entry(44, number(1, 1), number(2, 7))]),
                joined([entry(44, number(2, 7), number(1, 1)), entry(44, vec![], vec![])]),
            ],
            &[r#"{"byBool": {"true": "7", "false": "0"}}"#, r#"{"byBool": {"false": 0, "true": 7}}"#],
        ),
    ]
}

fn messages() -> Vec<Row> {
    let nested = Part {
        part_name: "outer".to_owned(),
        amount: 1,
        inner: Some(Box::new(Part { part_name: "inner".to_owned(), amount: 2, inner: None })),
    };
    vec![
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
            "an empty part",
            [item(Item { part: Some(Part::default()), ..Item::default() })],
            &[r#"{"part": {}}"#, r#"{"part": {"amount": 0}}"#],
        ),
    ]
}

fn well_known() -> Vec<Row> {
    let time =
        |seconds, nanos| item(Item { timestamp: Some(prost_types::Timestamp { seconds, nanos }), ..Item::default() });
    let duration =
        |seconds, nanos| item(Item { duration: Some(prost_types::Duration { seconds, nanos }), ..Item::default() });
    let part = Part { part_name: "p".to_owned(), amount: 4, inner: None };
    let any = |type_url: &str, value| {
        item(Item { any: Some(prost_types::Any { type_url: type_url.to_owned(), value }), ..Item::default() })
    };
    let mask = prost_types::FieldMask { paths: vec!["part.part_name".to_owned(), "int64".to_owned()] };
    vec![
        row(
            "a timestamp",
            [time(1_700_000_000, 500_000_000), bytes(60, &joined([number(2, 500_000_000), number(1, 1_700_000_000)]))],
            &[
                r#"{"timestamp": "2023-11-14T22:13:20.500Z"}"#,
                r#"{"timestamp": "2023-11-14T22:13:20.5Z"}"#,
                r#"{"timestamp": "2023-11-15T00:13:20.500000000+02:00"}"#,
                r#"{"timestamp": "2023-11-14T16:43:20.500000-05:30"}"#,
            ],
        ),
        row(
            "the epoch",
            [time(0, 0), bytes(60, &number(1, 0))],
            &[r#"{"timestamp": "1970-01-01T00:00:00Z"}"#, r#"{"timestamp": "1969-12-31T19:00:00-05:00"}"#],
        ),
        row(
            "a duration",
            [duration(-1, -500_000_000)],
            &[r#"{"duration": "-1.5s"}"#, r#"{"duration": "-1.500s"}"#, r#"{"duration": "-1.500000000s"}"#],
        ),
        row(
            "a field mask",
            [item(Item { field_mask: Some(mask), ..Item::default() })],
            &[r#"{"fieldMask": "part.partName,int64"}"#, r#"{"field_mask": "part.partName,int64"}"#],
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
            "a number as a value",
            [bytes(64, &fixed64(2, EXACT.to_bits()))],
            &[r#"{"value": 97497.18255256917}"#, r#"{"value": 9749718255256917e-11}"#],
        ),
        row("null as a value", [bytes(64, &number(1, 0))], &[r#"{"value": null}"#]),
        row("an empty message", [bytes(66, &[])], &[r#"{"empty": {}}"#]),
        row(
            "a part in an Any",
            [any("type.googleapis.com/catalog.v1.Part", part.encode_to_vec())],
            &[
                r#"{"any": {"@type": "type.googleapis.com/catalog.v1.Part", "partName": "p", "amount": "4"}}"#,
                r#"{"any": {"amount": 4, "part_name": "p", "@type": "type.googleapis.com/catalog.v1.Part"}}"#,
                r#"{"any": {"amount": 4, "@type": "type.googleapis.com/catalog.v1.Part", "partName": "p", "inner": null}}"#,
            ],
        ),
        row(
            "a duration in an Any",
            [any(
                "type.googleapis.com/google.protobuf.Duration",
                prost_types::Duration { seconds: 1, nanos: 0 }.encode_to_vec(),
            )],
            &[
                r#"{"any": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"}}"#,
                r#"{"any": {"value": "1.000s", "@type": "type.googleapis.com/google.protobuf.Duration"}}"#,
            ],
        ),
    ]
}

fn wrappers() -> Vec<Row> {
    vec![
        row(
            "wrapped defaults",
            [joined([70, 71, 72, 73, 74, 75, 76, 77, 78].map(|number| bytes(number, &[])))],
            &[
                r#"{"boolValue": false, "bytesValue": "", "doubleValue": 0, "floatValue": 0, "int32Value": 0, "int64Value": "0", "stringValue": "", "uint32Value": 0, "uint64Value": "0"}"#,
                r#"{"uint64_value": 0, "uint32_value": "0", "string_value": "", "int64_value": 0, "int32_value": "0", "float_value": 0.0, "double_value": "0", "bytes_value": "", "bool_value": false}"#,
            ],
        ),
        row(
            "wrapped values",
            [joined([
                bytes(70, &number(1, 1)),
                bytes(71, &bytes(1, &[0xfb, 0xff])),
                bytes(72, &fixed64(1, EXACT.to_bits())),
                bytes(75, &number(1, u64::MAX)),
                bytes(76, &text(1, "s")),
                bytes(78, &number(1, u64::MAX)),
            ])],
            &[
                r#"{"boolValue": true, "bytesValue": "+/8=", "doubleValue": 97497.18255256917, "int64Value": "-1", "stringValue": "s", "uint64Value": "18446744073709551615"}"#,
                r#"{"stringValue": "\u0073", "int64Value": -1, "uint64Value": 18446744073709551615, "doubleValue": "97497.18255256917", "bytesValue": "-_8", "boolValue": true}"#,
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
