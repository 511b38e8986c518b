//! Fields that are ignored, on random messages: the hashes are those of the message without them.

use prost_reflect::{Kind, MessageDescriptor};
use protobuf_canonical::{Canonical, CanonicalErrorKind};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::{
    evolution::Schema,
    random::{self, Content, Message, Value},
    schema,
};

/// A path of field numbers, and whether it ends at a member of a oneof.
struct Path {
    numbers: Vec<u32>,
    is_member: bool,
}

/// Returns the path of a random field, at most three levels deep.
fn random_path(message: &MessageDescriptor, rng: &mut StdRng) -> Option<Path> {
    let (mut numbers, mut message) = (Vec::new(), message.clone());
    loop {
        let fields: Vec<_> = message.fields().collect();
        let field = fields.choose(rng)?;
        numbers.push(field.number());
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        match kind {
            Kind::Message(inner) if numbers.len() < 3 && rng.random_bool(0.7) && inner.fields().len() > 0 => {
                message = inner
            }
            _ => {
                let is_member = field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
                return Some(Path { numbers, is_member });
            }
        }
    }
}

fn without(message: &mut Message, path: &[u32]) {
    let Some((number, inner)) = path.split_first() else { return };
    if inner.is_empty() {
        return message.fields.retain(|(field, _)| field.number != *number);
    }
    let of_path = message.fields.iter_mut().filter(|(field, _)| field.number == *number);
    of_path.for_each(|(_, content)| match content {
        Content::List(values) => values.iter_mut().for_each(|value| without_inside(value, inner)),
        Content::Map(entries) => entries.iter_mut().for_each(|(_, value)| without_inside(value, inner)),
        Content::One(value) => without_inside(value, inner),
    });
}

fn without_inside(value: &mut Value, path: &[u32]) {
    if let Value::Message(message) = value {
        without(message, path);
    }
}

#[test]
fn fields_are_in_neither_of_the_hashes() {
    let mut found = 0;
    for seed in 0..3_000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let descriptor = match seed % 3 {
            0 => schema::message("vectors.v1.Everything"),
            1 => schema::message("vectors.v1.LegacyEverything"),
            _ => Schema::random(&mut rng).descriptor(),
        };
        let Some(path) = random_path(&descriptor, &mut rng) else { continue };
        let ignoring = Canonical::ignoring(&descriptor, std::slice::from_ref(&path.numbers));
        let message = random::message(&descriptor, 3, &mut rng);
        let mut rest = message.clone();
        without(&mut rest, &path.numbers);
        let [sent, rest] = [&message, &rest].map(Message::encode);
        found += u64::from(sent != rest);

        let expected = Canonical::new(&descriptor).hashes(&rest).expect("a message");
        let hashes = ignoring.hashes(&sent).expect("a message");
        let case = format!("seed {seed}, path {:?}: {}", path.numbers, hex::encode(&sent));
        assert_eq!(hashes.canonical(), expected.canonical(), "{case}");
        if !path.is_member || sent == rest {
            assert_eq!(hashes, expected, "{case}");
        }
        assert_eq!(ignoring.hashes(&rest).expect("a message"), expected, "{case}");
        // Pieces, replaced values and members of a oneof, in any order.
        let odd = message.encode_oddly(&mut rng);
        assert_eq!(ignoring.hash(&odd).expect("a message"), *expected.canonical(), "{case}, {}", hex::encode(&odd));
    }
    assert!(found > 500, "{found}");
}

/// `google.protobuf.Value`: number_value = 2 and string_value = 3 are members of one oneof.
#[test]
fn a_member_of_a_oneof_unsets_the_others_although_it_is_ignored() {
    let value = schema::pool().get_message_by_name("google.protobuf.Value").expect("a known message");
    let canonical = Canonical::ignoring(&value, &[vec![3]]);
    let (both, number): (&[u8], &[u8]) = (b"\x11\0\0\0\0\0\0\0\0\x1a\x01a", b"\x11\0\0\0\0\0\0\0\0");
    let hashes = canonical.hashes(both).expect("a message");
    assert_eq!(hashes, canonical.hashes(b"").expect("a message"), "the last member is set, and ignored");
    assert!(!hashes.same_request(&canonical.hashes(number).expect("a message")));
}

#[test]
fn fields_have_to_be_valid_all_the_same() {
    let value = schema::pool().get_message_by_name("google.protobuf.StringValue").expect("a known message");
    let error = Canonical::ignoring(&value, &[vec![1]]).hashes(b"\x0a\x01\xff").expect_err("invalid UTF-8");
    assert_eq!(error.kind(), CanonicalErrorKind::InvalidUtf8);
}
