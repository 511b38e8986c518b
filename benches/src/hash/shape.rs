//! The messages that are hashed.

use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint},
};
use rand::{SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use super::proto::{Document, Line};

/// A message in its canonical encoding and in a different encoding.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) id: ShapeId,
    pub(crate) canonical: Vec<u8>,
    /// The same message in an encoding that is not canonical.
    pub(crate) other: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShapeId {
    Small,
    Labels,
    Text,
    Cyrillic,
    Map,
    Nested,
    Lines,
}

impl ShapeId {
    pub(crate) const ALL: [Self; 7] =
        [Self::Small, Self::Labels, Self::Text, Self::Cyrillic, Self::Map, Self::Nested, Self::Lines];

    /// Describes the message.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "15 B",
            Self::Labels => "90 B, a map of 8",
            Self::Text => "4 KiB of ASCII",
            Self::Cyrillic => "4 KiB of Cyrillic",
            Self::Map => "11 KB, a map of 1,000",
            Self::Nested => "90 levels deep",
            Self::Lines => "200 small messages",
        }
    }

    /// Describes how the other encoding differs from the canonical one.
    pub(crate) fn difference(self) -> &'static str {
        match self {
            Self::Small => "fields swapped",
            Self::Labels | Self::Map => "map shuffled",
            Self::Text | Self::Cyrillic => "length padded",
            Self::Nested => "fields swapped on every level",
            Self::Lines => "fields swapped in every message",
        }
    }

    pub(crate) fn shape(self) -> Shape {
        let (canonical, other) = match self {
            Self::Small => {
                let title = Document { title: "Otto Hahn".to_owned(), ..Document::default() };
                let number = Document { number: 1 << 20, ..Document::default() };
                (concat([&title, &number]), concat([&number, &title]))
            }
            Self::Labels => labels(8),
            Self::Text => text("The quick brown fox jumps over the lazy dog. "),
            Self::Cyrillic => text("Съешь ещё этих мягких французских булок. "),
            Self::Map => labels(1000),
            Self::Nested => nested(90),
            Self::Lines => lines(200),
        };
        Shape { id: self, canonical, other }
    }
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
