//! The messages that are hashed.

use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint},
};
use rand::{SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use self::proto::{Document, Line};
use super::way::Way;
use crate::report::Bound;

/// The generated code of `proto/benchmarks/hash/v1/hash.proto`.
#[expect(unreachable_pub, reason = "generated")]
pub(super) mod proto {
    include!(concat!(env!("OUT_DIR"), "/benchmarks.hash.v1.rs"));

    /// The encoded descriptors.
    pub(crate) const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hash.fds"));
}

/// A message in its canonical encoding and in a different encoding.
pub(super) struct Shape {
    pub(super) name: &'static str,
    /// The goals of the canonical encoding: the time of one way over that of another.
    pub(super) goals: &'static [(Way, Way, Bound, &'static str)],
    /// How the other encoding differs.
    pub(super) difference: &'static str,
    /// The limit of the hash of the other encoding.
    pub(super) limit: Option<&'static str>,
    pub(super) canonical: Vec<u8>,
    pub(super) other: Vec<u8>,
}

const SPEED: &str = "× the speed of plain SHA-256";

const OF_TEXT: &str = "\
    SHA-256 itself, which both ways run over the same 4 KiB: it alone takes more than a fifth of the time of the \
    `DynamicMessage` way. Only another hash would pass this limit, and stored hashes would no longer match those of the Go interceptor.";

const OF_ONE_BLOCK: &str = "\
    SHA-256 itself: one block of it takes more than a fifth of the time of the `DynamicMessage` way. Only another hash \
    would pass this limit, and stored hashes would no longer match those of the Go interceptor.";

pub(super) fn all() -> [Shape; 7] {
    let title = Document { title: "Otto Hahn".to_owned(), ..Document::default() };
    let number = Document { number: 1 << 20, ..Document::default() };
    let small = (concat([&title, &number]), concat([&number, &title]));
    let latin = text("The quick brown fox jumps over the lazy dog. ");
    let cyrillic = text("Съешь ещё этих мягких французских булок. ");
    let text_speed = &[(Way::Plain, Way::Canonical, Bound::AtLeast(0.9), SPEED)];
    let map_speed = &[(Way::Plain, Way::Canonical, Bound::AtLeast(0.4), SPEED)];
    let of_labels = &[
        (Way::Canonical, Way::Plain, Bound::AtMost(3.0), "× the time of plain SHA-256"),
        (Way::Dynamic, Way::Canonical, Bound::AtLeast(10.0), "× faster than `DynamicMessage`"),
    ];
    [
        shape("15 B", &[], "fields swapped", Some(OF_ONE_BLOCK), small),
        shape("90 B, a map of 8", of_labels, "map shuffled", None, labels(8)),
        shape("4 KiB of ASCII", text_speed, "length padded", Some(OF_TEXT), latin),
        shape("4 KiB of Cyrillic", &[], "length padded", Some(OF_TEXT), cyrillic),
        shape("11 KB, a map of 1,000", map_speed, "map shuffled", None, labels(1000)),
        shape("90 levels deep", &[], "fields swapped on every level", None, nested(90)),
        shape("200 small messages", &[], "fields swapped in every message", None, lines(200)),
    ]
}

fn shape(
    name: &'static str,
    goals: &'static [(Way, Way, Bound, &'static str)],
    difference: &'static str,
    limit: Option<&'static str>,
    (canonical, other): (Vec<u8>, Vec<u8>),
) -> Shape {
    Shape { name, goals, difference, limit, canonical, other }
}
/// Concatenates the encodings, which encodes the merged documents.
fn concat<'a>(documents: impl IntoIterator<Item = &'a Document>) -> Vec<u8> {
    documents.into_iter().flat_map(Document::encode_to_vec).collect()
}

/// Returns a map with entries of 11 bytes.
fn labels(count: usize) -> (Vec<u8>, Vec<u8>) {
    let mut entries: Vec<_> = (0..count)
        .map(|n| Document { labels: [(format!("k{n:03}"), "v".to_owned())].into(), ..Document::default() })
        .collect();
    let canonical = concat(&entries);
    entries.shuffle(&mut StdRng::seed_from_u64(1));
    (canonical, concat(&entries))
}

/// Returns 4 KiB of text; its length takes one byte more than needed in the other encoding.
fn text(sentence: &str) -> (Vec<u8>, Vec<u8>) {
    let mut text = sentence.repeat(4096 / sentence.len() + 1);
    text.truncate(text.floor_char_boundary(4096));
    let canonical = Document { title: text, ..Document::default() }.encode_to_vec();
    // The tag, and the two bytes of the length.
    let (head, text) = canonical.split_at(3);
    let padded = [&[head[0], head[1], head[2] | 0x80, 0x00], text].concat();
    (canonical, padded)
}

fn nested(depth: usize) -> (Vec<u8>, Vec<u8>) {
    let title = Document { title: "level".to_owned(), ..Document::default() }.encode_to_vec();
    let mut canonical = title.clone();
    let mut other = title.clone();
    for _ in 0..depth {
        canonical = [title.clone(), wrapped(4, &canonical)].concat();
        other = [wrapped(4, &other), title.clone()].concat();
    }
    (canonical, other)
}

fn lines(count: i64) -> (Vec<u8>, Vec<u8>) {
    let halves = (0..count).map(|n| {
        let name = Line { name: format!("article {n}"), ..Line::default() }.encode_to_vec();
        let quantity = Line { quantity: 1 + n, ..Line::default() }.encode_to_vec();
        (name, quantity)
    });
    halves.fold((Vec::new(), Vec::new()), |(mut canonical, mut other), (name, quantity)| {
        canonical.extend(wrapped(5, &[name.clone(), quantity.clone()].concat()));
        other.extend(wrapped(5, &[quantity, name].concat()));
        (canonical, other)
    })
}

/// Encodes a field that is a message.
fn wrapped(number: u32, content: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut field);
    encode_varint(content.len() as u64, &mut field);
    field.extend_from_slice(content);
    field
}
