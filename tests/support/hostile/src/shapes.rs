//! Plain and hostile messages in the wire format.

use crate::{
    Shape,
    wire::{bytes, group, padded, raw, varint},
};

/// Two messages of about this size, in bytes, as clients send them: one canonical, and one with its fields in another
/// order.
pub fn plain(size: usize) -> [Shape; 2] {
    let line = |index: usize| {
        let fields = [
            bytes(1, format!("a name of some length, number {index}").as_bytes()),
            varint(2, index as u64),
            bytes(10, &[bytes(1, b"colour"), bytes(2, b"blue")].concat()),
        ];
        bytes(4, &fields.concat())
    };
    let lines = repeated(size, line);
    [
        Shape { name: "plain, canonical", message: [bytes(1, b"an order"), lines.clone()].concat() },
        Shape { name: "plain", message: [lines, bytes(1, b"an order")].concat() },
    ]
}

/// Messages of about this size, in bytes, none of them canonical.
pub fn hostile(size: usize) -> Vec<Shape> {
    // A field that comes too late, so that no message is canonical.
    let late = |mut message: Vec<u8>| {
        message.extend(varint(2, 1));
        message
    };
    let shapes = [maps(size), nested(size), repetitions(size), alternations(size)];
    shapes.into_iter().flatten().map(|(name, message)| Shape { name, message: late(message) }).collect()
}

type Named = (&'static str, Vec<u8>);

fn maps(size: usize) -> Vec<Named> {
    let flag = |key: u64| bytes(9, &varint(1, key));
    let label = |key: &str| bytes(10, &bytes(1, key.as_bytes()));
    vec![
        ("empty map entries", repeated(size, |_| bytes(10, b""))),
        ("empty map entries of numbers", repeated(size, |_| bytes(11, b""))),
        ("map entries with two keys in turn", repeated(size, |index| flag(index as u64 % 2))),
        ("map entries with 1,000 keys in turn", repeated(size, |index| flag(index as u64 % 1000))),
        ("map entries with different keys, no values", repeated(size, |index| flag(scattered(index)))),
        (
            "map entries with different keys, and a value before each",
            repeated(size, |index| bytes(9, &[varint(2, 1), varint(1, scattered(index))].concat())),
        ),
        (
            "map entries whose texts begin alike",
            repeated(size, |index| label(&format!("the same beginning {}", scattered(index)))),
        ),
        ("map entries whose texts are short", repeated(size, |index| label(&format!("{:x}", scattered(index))))),
        (
            "map entries with many keys each",
            repeated(size, |index| bytes(10, &bytes(1, index.to_string().as_bytes()).repeat(20))),
        ),
        ("one map entry in each of many messages", repeated(size, |_| bytes(4, &bytes(11, b"")))),
        ("messages as map values that are replaced", repeated(size, |_| bytes(5, &bytes(2, &flag(1).repeat(50))))),
        ("different keys, then equal ones in turn", {
            let mut message = repeated(size * 2 / 3, |index| flag(scattered(index)));
            message.extend(repeated(size / 3, |index| flag(index as u64 % 2)));
            message
        }),
    ]
}

fn nested(size: usize) -> Vec<Named> {
    // Two values, of which the second counts.
    let odd = [varint(2, 1), varint(2, 3)].concat();
    let within = |levels: usize, content: &[u8], wrap: &dyn Fn(&[u8]) -> Vec<u8>| {
        (0..levels).fold(content.to_vec(), |content, _| wrap(&content))
    };
    let flood = repeated(size, |_| bytes(10, b""));
    let chain = |wrap: &dyn Fn(&[u8]) -> Vec<u8>, levels| {
        let one = within(levels, &odd, wrap);
        repeated(size, |_| bytes(4, &one))
    };
    vec![
        ("chains of messages", chain(&|inner| bytes(3, inner), 98)),
        ("chains of map values", chain(&|inner| bytes(5, &bytes(2, inner)), 98)),
        ("chains of map values in pieces", chain(&|inner| bytes(5, &[bytes(2, inner), bytes(2, b"")].concat()), 98)),
        ("chains of oneofs", chain(&|inner| [bytes(7, b""), bytes(6, inner)].concat(), 98)),
        ("chains of groups", chain(&|inner| group(16, &bytes(1, inner)), 49)),
        ("chains of unknown groups", chain(&|inner| group(1000, inner), 98)),
        ("a flood at the bottom of a chain", within(98, &flood, &|inner| bytes(3, inner))),
        ("a flood at the bottom of groups", within(49, &flood, &|inner| group(16, &bytes(1, inner)))),
        (
            "lengths that shrink at every level",
            within(98, &[bytes(14, &vec![b'a'; size / 2]), padded(2, 1).repeat(50)].concat(), &|inner| {
                bytes(3, &[inner.to_vec(), padded(2, 1)].concat())
            }),
        ),
    ]
}

fn repetitions(size: usize) -> Vec<Named> {
    vec![
        ("empty messages", repeated(size, |_| bytes(4, b""))),
        ("pieces of one message", repeated(size, |_| bytes(3, &varint(2, 1)))),
        ("empty pieces of one message", repeated(size, |_| bytes(3, b""))),
        ("one value again and again", repeated(size, |index| varint(2, index as u64 % 100))),
        ("a packed list in chunks", repeated(size, |_| bytes(12, &raw(1)))),
        ("empty chunks of a packed list", repeated(size, |_| bytes(12, b""))),
        ("a packed list that is not packed", repeated(size, |_| varint(12, 1))),
        ("an unpacked list that is packed", bytes(13, &vec![1; size])),
        ("a list with long tags that is packed", bytes(536_870_911, &vec![1; size])),
        ("long varints", repeated(size, |_| padded(13, 1))),
        ("long varints in a packed list", bytes(12, &repeated(size, |_| padded(1, 1)[1..].to_vec()))),
        ("unknown fields", repeated(size, |index| varint(1000 + index as u32 % 100, 1))),
        ("unknown groups", repeated(size, |_| group(1000, b""))),
        ("groups", repeated(size, |_| group(16, b""))),
        ("extensions", repeated(size, |_| varint(100, 1))),
        ("short texts", repeated(size, |_| bytes(14, b"a"))),
        ("a long text", bytes(14, "\u{2713}".repeat(size / 3).as_bytes())),
    ]
}

fn alternations(size: usize) -> Vec<Named> {
    let in_turn = |fields: &[Vec<u8>]| repeated(size, |index| fields[index % fields.len()].clone());
    vec![
        ("two lists in turn", in_turn(&[bytes(14, b""), bytes(15, b"")])),
        ("two lists in turn, of longer texts", in_turn(&[bytes(14, b"abcdefgh"), bytes(15, b"abcdefgh")])),
        ("two values in turn", in_turn(&[varint(2, 1), varint(8, 1)])),
        ("two oneof members in turn", in_turn(&[bytes(6, b""), bytes(7, b"")])),
        (
            "two oneof members in turn, with content",
            in_turn(&[bytes(6, &varint(2, 1).repeat(20)), bytes(7, &varint(2, 1).repeat(20))]),
        ),
        ("pieces of two messages in turn", in_turn(&[bytes(3, &varint(2, 1)), bytes(6, &varint(2, 1))])),
        ("known and unknown fields in turn", in_turn(&[varint(13, 1), varint(20, 1)])),
        ("map entries and values in turn", in_turn(&[bytes(9, b""), varint(2, 1)])),
        ("extensions in turn", in_turn(&[varint(100, 1), varint(101, 1), bytes(100, &raw(1))])),
    ]
}

/// Repeats a field until there are this many bytes.
fn repeated(size: usize, field: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut message = Vec::with_capacity(size + 1024);
    for index in 0.. {
        if message.len() >= size {
            break;
        }
        message.extend(field(index));
    }
    message
}

/// Returns numbers below 2²⁰, all different, in no order.
fn scattered(index: usize) -> u64 {
    (index as u64).wrapping_mul(0x9e37_79b1) & 0xf_ffff
}
