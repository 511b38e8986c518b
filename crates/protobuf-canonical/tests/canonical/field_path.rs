//! Finding a field in an encoded message.

use proptest::prelude::*;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use protobuf_canonical::{Canonical, FieldPath};
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{random, schema};

/// The fields along a dotted path.
fn fields(message: &str, path: &str) -> Vec<FieldDescriptor> {
    let mut message = schema::message(message);
    path.split('.')
        .map(|name| {
            let field = message.get_field_by_name(name).expect(name);
            if let Kind::Message(inner) = field.kind() {
                message = inner;
            }
            field
        })
        .collect()
}

fn path(message: &str, path: &str) -> FieldPath {
    FieldPath::new(&fields(message, path)).expect("a path")
}

#[test]
fn the_last_value_wins() {
    let label = path("vectors.v1.Node", "label");
    assert_eq!(label.find(b"\x0a\x01a\x10\x07\x0a\x01b").expect("a message"), Some(b"b".as_slice()));
    assert_eq!(label.find(b"\x0a\x01a\x0a\x00").expect("a message"), Some(b"".as_slice()));
    assert_eq!(label.find(b"\x10\x07").expect("a message"), None);
    // A field whose wire type does not match the schema is unknown, and a padded tag is known.
    assert_eq!(label.find(b"\x0a\x01a\x08\x01").expect("a message"), Some(b"a".as_slice()));
    assert_eq!(label.find(b"\x8a\x00\x01a").expect("a message"), Some(b"a".as_slice()));
}

#[test]
fn an_integer_is_found_as_its_bits() {
    let value = path("vectors.v1.Node", "child.value");
    assert_eq!(value.find_number(b"\x1a\x02\x10\x07\x1a\x03\x10\x88\x01").expect("a message"), Some(0x88));
    assert_eq!(value.find_number(b"\x1a\x03\x0a\x01a").expect("a message"), None);
    assert_eq!(value.find(b"\x1a\x02\x10\x07").expect("a message"), None);
    let [fixed32, fixed64] = ["f_sfixed32", "f_fixed64"].map(|name| {
        let field = fields("vectors.v1.Scalars", name);
        (FieldPath::new(&field).expect("a path"), field[0].number())
    });
    for (path, number, wire, bytes) in [(fixed32.0, fixed32.1, 5, 4), (fixed64.0, fixed64.1, 1, 8)] {
        let tag = u64::from(number) << 3 | wire;
        let mut message = Vec::new();
        prost::encoding::encode_varint(tag, &mut message);
        message.extend(&[1, 2, 3, 4, 5, 6, 7, 8][..bytes]);
        let expected = if bytes == 4 { 0x0403_0201 } else { 0x0807_0605_0403_0201 };
        assert_eq!(path.find_number(&message).expect("a message"), Some(expected));
        assert!(path.find_number(&message[..message.len() - 1]).is_err());
    }
}

#[test]
fn a_message_that_is_not_well_formed_is_an_error() {
    let inner = path("vectors.v1.Node", "child.label");
    for wire in [b"\x0a".as_slice(), b"\x0a\x05a", b"\x1a\x02\x0a\x05", b"\x1a\x01\x07", b"\x00", b"\x0b", b"\x0c"] {
        assert!(inner.find(wire).is_err(), "{wire:x?}");
    }
}

#[test]
fn only_leads_through_singular_messages_to_a_singular_text_or_integer() {
    for (message, path) in [
        ("vectors.v1.Node", "child"),
        ("vectors.v1.Node", "by_name"),
        ("vectors.v1.Node", "children.label"),
        ("vectors.v1.Scalars", "f_bool"),
        ("vectors.v1.Scalars", "f_double"),
        ("vectors.v1.Repeated", "f_string"),
    ] {
        assert_eq!(FieldPath::new(&fields(message, path)), None, "{path}");
    }
    assert_eq!(FieldPath::new(&[]), None);
    let [child, label] = &fields("vectors.v1.Node", "child.label")[..] else { panic!("two fields") };
    assert_eq!(FieldPath::new(&[label.clone(), child.clone()]), None);
}

/// All paths to a text of at most this many fields.
fn paths(message: &MessageDescriptor, depth: usize) -> Vec<Vec<FieldDescriptor>> {
    let mut paths = Vec::new();
    for field in message.fields().filter(|field| !field.is_list() && !field.is_map()) {
        match field.kind() {
            Kind::String | Kind::Bytes => paths.push(vec![field]),
            Kind::Message(inner) if depth > 1 => {
                paths.extend(self::paths(&inner, depth - 1).into_iter().map(|mut path| {
                    path.insert(0, field.clone());
                    path
                }));
            }
            _ => {}
        }
    }
    paths
}

/// The value of a field, as a decoder finds it; empty if it is not set.
fn decoded(message: &DynamicMessage, path: &[FieldDescriptor]) -> Vec<u8> {
    let Some((field, rest)) = path.split_first() else { return Vec::new() };
    if !message.has_field(field) {
        return Vec::new();
    }
    let value = message.get_field(field);
    match (value.as_message(), value.as_str(), value.as_bytes()) {
        (Some(inner), _, _) => decoded(inner, rest),
        (_, Some(text), _) => text.as_bytes().to_vec(),
        (_, _, Some(bytes)) => bytes.to_vec(),
        _ => Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_encoding_of_a_message_has_the_value_that_a_decoder_finds(
        root in prop::sample::select(vec!["vectors.v1.Everything", "vectors.v1.LegacyEverything"]), seed: u64, style: u64,
    ) {
        let descriptor = schema::message(root);
        let canonical = Canonical::new(&descriptor);
        let message = random::message(&descriptor, 4, &mut StdRng::seed_from_u64(seed));
        let odd = message.encode_oddly(&mut StdRng::seed_from_u64(style));
        let encoded = canonical.encode(&odd).expect("a valid message");
        let dynamic = DynamicMessage::decode(descriptor.clone(), &*encoded).expect("a valid message");
        for path in paths(&descriptor, 3) {
            let field = FieldPath::new(&path).expect("a path");
            let name = path.iter().map(FieldDescriptor::full_name).collect::<Vec<_>>().join(", ");
            let expected = decoded(&dynamic, &path);
            for wire in [&odd, &*encoded] {
                prop_assert_eq!(field.find(wire).expect("a valid message").unwrap_or_default(), &expected, "{}", name);
            }
        }
    }
}
