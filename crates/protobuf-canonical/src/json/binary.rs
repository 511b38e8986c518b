//! Fields and numbers in the binary encoding.

use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::Kind;

/// Encodes a field: its tag, its length if it is length-delimited, and its value.
pub(super) fn field_of(number: u32, kind: &Kind, value: &[u8]) -> Vec<u8> {
    let (mut bytes, wire_type) = (Vec::with_capacity(value.len() + 6), wire_type(kind));
    encode_key(number, wire_type, &mut bytes);
    if wire_type == WireType::LengthDelimited {
        encode_varint(value.len() as u64, &mut bytes);
    }
    bytes.extend(value);
    bytes
}

/// Returns the wire type of a kind; a group has that of a message.
pub(super) fn wire_type(kind: &Kind) -> WireType {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::SixtyFourBit,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => WireType::ThirtyTwoBit,
        Kind::Bytes | Kind::Message(_) | Kind::String => WireType::LengthDelimited,
        _ => WireType::Varint,
    }
}

pub(super) fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_varint(value, &mut bytes);
    bytes
}
