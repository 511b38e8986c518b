//! Each variation of an encoding on its own, on random messages.

use proptest::prelude::*;
use protobuf_canonical::{
    Canonical, CanonicalErrorKind, MAX_DEPTH,
    reencode::{Padding, Variations, reencode},
};
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    encode::wire,
    random::{self, Content, Message, Value},
    schema,
    undo::{Variation, undo},
};

const SINGLE: [Variation; 7] = [
    Variation::Defaults,
    Variation::FieldOrder,
    Variation::MapOrder,
    Variation::Packing,
    Variation::Padding(Padding::Longest),
    Variation::Padding(Padding::Portable),
    Variation::Replaced,
];

fn variations(variation: Variation) -> Variations {
    let mut variations = Variations::default();
    match variation {
        Variation::Defaults => variations.defaults = true,
        Variation::FieldOrder => variations.field_order = true,
        Variation::MapOrder => variations.map_order = true,
        Variation::Packing => variations.packing = true,
        Variation::Padding(padding) => variations.padding = padding,
        Variation::Replaced => variations.replaced = true,
    }
    variations
}

/// Returns whether an encoding of the message may differ from the plain one in this.
fn allows(message: &Message, variation: Variation) -> bool {
    let of_content = |(field, content): &(random::Field, Content)| match variation {
        Variation::FieldOrder => matches!(content, Content::Map(_)),
        Variation::MapOrder => matches!(content, Content::Map(entries) if entries.len() > 1),
        Variation::Packing => matches!(content, Content::List(_)) && wire(&field.kind) != 2,
        Variation::Replaced => !matches!(content, Content::List(_)),
        Variation::Defaults | Variation::Padding(_) => false,
    };
    let streams = message.fields.len() + usize::from(!message.unknown.is_empty());
    let of_message = match variation {
        Variation::Defaults => random::fields(&message.descriptor).iter().any(|field| {
            let is_implicit = !field.presence && !field.list && field.kind.as_message().is_none();
            is_implicit && message.fields.iter().all(|(set, _)| set.number != field.number)
        }),
        Variation::FieldOrder => streams > 1,
        Variation::Padding(_) => streams > 0,
        Variation::MapOrder | Variation::Packing | Variation::Replaced => false,
    };
    let inside = |value: &Value| matches!(value, Value::Message(inner) if allows(inner, variation));
    of_message
        || message.fields.iter().any(of_content)
        || message.fields.iter().any(|(_, content)| match content {
            Content::List(values) => values.iter().any(inside),
            Content::Map(entries) => entries.iter().any(|(_, value)| inside(value)),
            Content::One(value) => inside(value),
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_variation_happens_if_the_message_allows_it_and_nothing_else_does(
        root in prop::sample::select(vec!["vectors.v1.Everything", "vectors.v1.LegacyEverything"]),
        depth in 0..4_usize, seed: u64, style: u64,
    ) {
        let descriptor = schema::message(root);
        let canonical = Canonical::new(&descriptor);
        let message = random::message(&descriptor, depth, &mut StdRng::seed_from_u64(seed));
        let plain = message.encode();
        let expected = canonical.encode(&plain).expect("a valid message");
        // Of these two, only the second packs lists and sorts the fields.
        for before in [&plain, &*expected] {
            for variation in SINGLE {
                let after = reencode(before, &descriptor, variations(variation), style).expect("a valid message");
                let case = format!("{variation:?} of {}: {}", hex::encode(before), hex::encode(&after));
                prop_assert_eq!(&canonical.encode(&after).expect("a valid message"), &expected, "{}", case);
                prop_assert_eq!(after != *before, allows(&message, variation), "{}", case);
                let [undone, original] = [&after, before].map(|wire| undo(variation, &descriptor, wire));
                prop_assert_eq!(hex::encode(undone), hex::encode(original), "{}", case);
                let again = reencode(before, &descriptor, variations(variation), style).expect("a valid message");
                prop_assert_eq!(again, after, "not the same for the same seed: {}", case);
            }
            let unvaried = reencode(before, &descriptor, Variations::default(), style).expect("a valid message");
            prop_assert_eq!(&unvaried, before);
        }
    }
}

#[test]
fn an_encoding_without_variations_stays_as_it_is() {
    let descriptor = schema::message("vectors.v1.Everything");
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let odd = random::message(&descriptor, 3, &mut rng).encode_oddly(&mut rng);
        assert_eq!(reencode(&odd, &descriptor, Variations::default(), seed).expect("a valid message"), odd, "{seed}");
    }
}

/// A member of the oneof in the innermost message is replaced, but not one that is a message: it would be too deep.
#[test]
fn a_message_does_not_become_too_deep() {
    let value = schema::pool().get_message_by_name("google.protobuf.Value").expect("a known message");
    let canonical = Canonical::new(&value);
    let delimited = |tag: u8, content: Vec<u8>| {
        let mut message = vec![tag];
        prost::encoding::encode_varint(content.len() as u64, &mut message);
        [message, content].concat()
    };
    let number = b"\x11\0\0\0\0\0\0\xf0\x3f".to_vec();
    // Each list_value (6) of one element in values (1) is two levels deep.
    let deepest = (0..MAX_DEPTH / 2).fold(number, |inner, _| delimited(0x32, delimited(0x0a, inner)));
    let deeper = delimited(0x32, delimited(0x0a, deepest.clone()));
    assert_eq!(canonical.encode(&deeper).expect_err("too deep").kind(), CanonicalErrorKind::TooDeep);
    for seed in 0..100 {
        let other = reencode(&deepest, &value, Variations::all(), seed).expect("a valid message");
        assert_eq!(canonical.encode(&other).expect("a valid message"), deepest);
    }
}

#[test]
fn refuses_bytes_that_are_not_a_message() {
    let descriptor = schema::message("vectors.v1.Everything");
    let error = reencode(b"\x0a\x05a", &descriptor, Variations::all(), 1).expect_err("cut off");
    assert_eq!(error.kind(), CanonicalErrorKind::Truncated);
}
