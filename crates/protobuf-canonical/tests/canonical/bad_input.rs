//! Input that is not a valid message gives an error of the right kind, never a panic.

use proptest::prelude::*;
use protobuf_canonical::{Canonical, CanonicalErrorKind, MAX_DEPTH};
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{random, schema};

fn canonical() -> Canonical {
    Canonical::new(&schema::message("vectors.v1.Everything"))
}

fn kind(input: &[u8]) -> CanonicalErrorKind {
    canonical().encode(input).expect_err("no message").kind()
}

#[test]
fn invalid_input_gives_an_error_of_its_kind() {
    let cases: [(&[u8], CanonicalErrorKind); 9] = [
        (&[0x80], CanonicalErrorKind::Truncated),
        (&[0xfa, 0xff, 0x1f, 0x05, 1, 2], CanonicalErrorKind::Truncated),
        (
            &[0xf8, 0xff, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            CanonicalErrorKind::VarintOverflow,
        ),
        (&[0x00, 0x00], CanonicalErrorKind::InvalidFieldNumber),
        (&[0x80, 0x80, 0x80, 0x80, 0x10, 0x00], CanonicalErrorKind::InvalidFieldNumber),
        (&[0x0e], CanonicalErrorKind::InvalidWireType),
        (&[0xfc, 0xff, 0x1f], CanonicalErrorKind::GroupMismatch),
        (&[0xfb, 0xff, 0x1f], CanonicalErrorKind::GroupMismatch),
        (&[0xfb, 0xff, 0x1f, 0x0c], CanonicalErrorKind::GroupMismatch),
    ];
    for (input, expected) in cases {
        assert_eq!(kind(input), expected, "{input:x?}");
    }
}

/// A message with `depth` messages nested inside, each in the first field that has the message's own type.
fn nested(name: &str, depth: u32) -> (Canonical, Vec<u8>) {
    let descriptor = schema::message(name);
    let recursive = |field: &prost_reflect::FieldDescriptor| {
        !field.is_list() && field.kind().as_message().is_some_and(|inner| inner.full_name() == name)
    };
    let field = descriptor.fields().find(recursive).expect("a recursive field");
    let mut message = Vec::new();
    for _ in 0..depth {
        let mut outer = Vec::new();
        prost::encoding::encode_varint(u64::from(field.number() << 3 | 2), &mut outer);
        prost::encoding::encode_varint(message.len() as u64, &mut outer);
        outer.append(&mut message);
        message = outer;
    }
    (Canonical::new(&descriptor), message)
}

fn recursive_message() -> String {
    let found = schema::pool().all_messages().find(|message| {
        message.full_name().starts_with("vectors.v1.")
            && message.fields().any(|field| !field.is_list() && field.kind().as_message() == Some(message))
    });
    found.expect("a recursive message").full_name().to_owned()
}

#[test]
fn accepts_messages_as_deep_as_prost_does_and_no_deeper() {
    let name = recursive_message();
    let (canonical, message) = nested(&name, MAX_DEPTH);
    assert!(canonical.encode(&message).is_ok());
    for depth in [MAX_DEPTH + 1, 100_000] {
        let (canonical, message) = nested(&name, depth);
        assert_eq!(canonical.encode(&message).expect_err("too deep").kind(), CanonicalErrorKind::TooDeep);
    }
}

#[test]
fn refuses_unknown_groups_beyond_the_depth_limit() {
    let deep = [0xfb, 0xff, 0x1f].repeat(100_000);
    assert_eq!(kind(&deep), CanonicalErrorKind::TooDeep);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_does_not_panic(garbage: Vec<u8>) {
        let _ = canonical().encode(&garbage);
    }

    #[test]
    fn a_message_cut_off_or_altered_does_not_panic(seed: u64, style: u64, at: prop::sample::Index, byte: u8) {
        let descriptor = schema::message("vectors.v1.Everything");
        let message = random::message(&descriptor, 3, &mut StdRng::seed_from_u64(seed));
        let mut wire = message.encode_oddly(&mut StdRng::seed_from_u64(style));
        prop_assume!(!wire.is_empty());
        let at = at.index(wire.len());
        let canonical = Canonical::new(&descriptor);
        let _ = canonical.encode(&wire[..at]);
        wire[at] = byte;
        if let Ok(encoded) = canonical.encode(&wire) {
            // Anything that it accepts as a message has one canonical encoding.
            prop_assert_eq!(&*canonical.encode(&encoded).expect("a message"), &*encoded);
        }
    }
}
