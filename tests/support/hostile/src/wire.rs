//! Writes the wire format.

use prost::encoding::encode_varint;

const VARINT: u32 = 0;
const BYTES: u32 = 2;
const START_GROUP: u32 = 3;
const END_GROUP: u32 = 4;

fn tag(number: u32, wire: u32) -> Vec<u8> {
    raw(u64::from(number << 3 | wire))
}

pub(crate) fn raw(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode_varint(value, &mut out);
    out
}

pub(crate) fn varint(number: u32, value: u64) -> Vec<u8> {
    [tag(number, VARINT), raw(value)].concat()
}

/// A varint of ten bytes.
pub(crate) fn padded(number: u32, value: u8) -> Vec<u8> {
    [tag(number, VARINT), vec![value | 0x80], vec![0x80; 8], vec![0]].concat()
}

pub(crate) fn bytes(number: u32, content: &[u8]) -> Vec<u8> {
    [tag(number, BYTES), raw(content.len() as u64), content.to_vec()].concat()
}

pub(crate) fn group(number: u32, content: &[u8]) -> Vec<u8> {
    [tag(number, START_GROUP), content.to_vec(), tag(number, END_GROUP)].concat()
}
