//! The encodings of a random message: the plain one, and any other.

use prost_reflect::Kind;
use protobuf_canonical::reencode::{Padding, Variations, reencode};
use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::random::{Content, Field, Message, Value, map_entry};

impl Message {
    /// Returns the plain encoding: fields as in the model, lists not packed.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::new();
        for (field, content) in &self.fields {
            match content {
                Content::List(values) => values.iter().for_each(|value| record(field, value, &mut encoded)),
                Content::Map(entries) => entries.iter().for_each(|(key, value)| entry(field, key, value, &mut encoded)),
                Content::One(value) => record(field, value, &mut encoded),
            }
        }
        for (number, value) in &self.unknown {
            tag(*number, 0, &mut encoded);
            prost::encoding::encode_varint(*value, &mut encoded);
        }
        encoded
    }

    /// Returns any encoding that a valid encoder may produce.
    pub(crate) fn encode_oddly(&self, rng: &mut StdRng) -> Vec<u8> {
        let mut encoded = self.encode();
        // Once more, as what is added or cut may be cut, replaced and shuffled, too.
        for _ in 0..rng.random_range(1..3) {
            encoded = reencode(&encoded, &self.descriptor, variations(rng), rng.random()).expect("a valid message");
        }
        encoded
    }
}

/// Returns all variations, or any of them: some errors show only in a message that is canonical but for one thing.
fn variations(rng: &mut StdRng) -> Variations {
    let mut variations = Variations::all();
    if rng.random() {
        variations.field_order = rng.random();
        variations.map_order = rng.random();
        variations.packing = rng.random();
        variations.padding = *[Padding::None, Padding::Portable, Padding::Longest].choose(rng).expect("one of them");
        variations.defaults = rng.random();
        variations.replaced = rng.random();
    }
    variations
}

fn record(field: &Field, value: &Value, encoded: &mut Vec<u8>) {
    let wire = if field.group { 3 } else { wire(&field.kind) };
    tag(field.number, wire, encoded);
    match (wire, value) {
        (0, Value::Number(number)) => prost::encoding::encode_varint(*number, encoded),
        (1, Value::Number(number)) => encoded.extend(number.to_le_bytes()),
        (2, Value::Bytes(bytes)) => delimited(bytes, encoded),
        (2, Value::Message(message)) => delimited(&message.encode(), encoded),
        (3, Value::Message(message)) => {
            encoded.extend(message.encode());
            tag(field.number, 4, encoded);
        }
        (5, Value::Number(number)) => encoded.extend((*number as u32).to_le_bytes()),
        (wire, value) => panic!("{value:?} with wire type {wire}"),
    }
}

fn entry(field: &Field, key: &Value, value: &Value, encoded: &mut Vec<u8>) {
    let (key_field, value_field) = map_entry(field).expect("a map");
    let mut entry = Vec::new();
    record(&key_field, key, &mut entry);
    record(&value_field, value, &mut entry);
    tag(field.number, 2, encoded);
    delimited(&entry, encoded);
}

fn delimited(content: &[u8], encoded: &mut Vec<u8>) {
    prost::encoding::encode_varint(content.len() as u64, encoded);
    encoded.extend(content);
}

/// Returns the wire type of a value that is neither in a group nor packed.
pub(crate) fn wire(kind: &Kind) -> u32 {
    match kind {
        Kind::Bytes | Kind::Message(_) | Kind::String => 2,
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
        Kind::Fixed32 | Kind::Float | Kind::Sfixed32 => 5,
        _ => 0,
    }
}

fn tag(number: u32, wire: u32, encoded: &mut Vec<u8>) {
    prost::encoding::encode_varint(u64::from(number << 3 | wire), encoded);
}
