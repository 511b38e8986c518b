//! Random values.

use fastrand::Rng;

use super::message::{Content, Delimited, Message, Record, Varint};
use crate::{
    reader::{Tag, WireType},
    schema::{MessageId, Scalar, Schema, Shape, Value},
};

/// Numbers that no field of any message may have: those that protobuf reserves for its implementations.
const UNDECLARED: std::ops::Range<u32> = 19_000..20_000;

/// Returns a value for a field with this number. A message has no messages inside.
pub(super) fn value<'a>(schema: &'a Schema, value: Value, number: u32, rng: &mut Rng) -> Content<'a> {
    match value {
        Value::Group(id) => Content::group(number, message(schema, id, rng)),
        Value::Message(id) => Content::Message(Delimited::new(message(schema, id, rng))),
        Value::Scalar(scalar) => self::scalar(scalar, rng),
    }
}

fn message<'a>(schema: &'a Schema, id: MessageId, rng: &mut Rng) -> Message<'a> {
    let fields = schema.message(id).fields();
    let mut records = Vec::new();
    for &field in fields.iter().filter(|_| rng.f64() < 0.4).collect::<Vec<_>>() {
        match field.shape {
            Shape::Packed(scalar) => {
                let elements = (0..rng.usize(..4)).map(|_| self::scalar(scalar, rng)).collect();
                records.push(Record::new(field, Content::Packed(Delimited::new(elements))));
            }
            Shape::Repeated(Value::Scalar(scalar)) => {
                records.extend((0..rng.usize(..4)).map(|_| Record::new(field, self::scalar(scalar, rng))));
            }
            Shape::Singular(Value::Scalar(scalar), _) => records.push(Record::new(field, self::scalar(scalar, rng))),
            _ => {}
        }
    }
    if rng.bool() {
        let tag = Varint::new(Tag::new(rng.u32(UNDECLARED), WireType::Varint).encoded());
        records.push(Record { tag, field: None, content: Content::Varint(Varint::new(rng.u64(..))) });
    }
    rng.shuffle(&mut records);
    Message { fields: fields.into(), records }
}

fn scalar(scalar: Scalar, rng: &mut Rng) -> Content<'static> {
    let raw = match rng.u8(..4) {
        0 => 0,
        1 => rng.u64(..200),
        2 => rng.u64(..),
        _ => u64::MAX - rng.u64(..200),
    };
    match scalar.wire() {
        WireType::Varint => Content::Varint(Varint::new(scalar.normalize(raw))),
        WireType::Fixed32 => Content::Verbatim((raw as u32).to_le_bytes().to_vec().into()),
        WireType::Fixed64 => Content::Verbatim(raw.to_le_bytes().to_vec().into()),
        _ => Content::bytes((0..rng.usize(..6)).map(|_| rng.lowercase() as u8).collect::<Vec<_>>()),
    }
}
