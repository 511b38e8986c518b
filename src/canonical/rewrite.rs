//! The rewriter, for messages that did not arrive in canonical form.
//!
//! Merging the pieces of a message is the same as decoding the pieces one after the other, so a message is given as a list
//! of pieces, and nothing is decoded into a tree: the fields of all pieces become a list of spans, sorted into canonical
//! order, and each span is written out.

use std::str;

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    check::Key,
    reader::{Reader, Tag, WireType, deeper},
    schema::{FieldPlan, MapPlan, MessagePlan, Presence, Scalar, Schema, Shape, Value},
};

/// The canonical encoding of the message that `wire` encodes.
pub(super) fn rewrite(schema: &Schema, wire: &[u8]) -> Result<Vec<u8>, CanonicalError> {
    let mut rewriter = Rewriter { schema, out: Vec::with_capacity(wire.len()) };
    rewriter.message(schema.root(), &[wire], 0)?;
    Ok(rewriter.out)
}

struct Rewriter<'a> {
    schema: &'a Schema,
    out: Vec<u8>,
}

/// One field as it arrived.
struct Item<'a, 'p> {
    /// `None` for an unknown field, last in the order.
    field: Option<&'p FieldPlan>,
    raw: Raw<'a>,
}

impl Item<'_, '_> {
    fn rank(&self) -> u32 {
        self.field.map_or(u32::MAX, |field| field.rank)
    }
}

#[derive(Clone, Copy)]
enum Raw<'a> {
    /// The content of a length-delimited field or of a group.
    Bytes(&'a [u8]),
    /// A varint, as protobuf-go would write it, or a fixed32 or fixed64.
    Number(u64),
    /// Several values of a list in one.
    Packed(&'a [u8]),
    /// An unknown field: its tag, and the rest of it verbatim.
    Unknown(Tag, &'a [u8]),
}

impl<'a> Raw<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) | Self::Packed(bytes) | Self::Unknown(_, bytes) => bytes,
            Self::Number(_) => &[],
        }
    }

    fn is_default(self) -> bool {
        match self {
            Self::Number(number) => number == 0,
            raw => raw.bytes().is_empty(),
        }
    }
}

impl<'a> Rewriter<'a> {
    /// Writes the message that `pieces` add up to.
    fn message(&mut self, plan: &'a MessagePlan, pieces: &[&'a [u8]], depth: u32) -> Result<(), CanonicalError> {
        let mut items = Vec::new();
        for piece in pieces {
            collect(plan, piece, depth, &mut items)?;
        }
        // Stable: items of one rank stay in the order of their arrival.
        items.sort_by_key(Item::rank);
        for same in items.chunk_by(|a, b| a.rank() == b.rank()) {
            self.field(same, depth)?;
        }
        Ok(())
    }

    /// Writes what the items of one rank, none of them missing, add up to.
    fn field(&mut self, items: &[Item<'a, 'a>], depth: u32) -> Result<(), CanonicalError> {
        let Some(last) = items.last() else { return Ok(()) };
        let Some(field) = last.field else {
            for item in items {
                if let Raw::Unknown(tag, rest) = item.raw {
                    self.varint(tag.encoded());
                    self.out.extend_from_slice(rest);
                }
            }
            return Ok(());
        };
        match field.shape {
            Shape::Map(map) => self.map(field.number, map, items, depth),
            Shape::Packed(scalar) => {
                let start = self.out.len();
                self.tag(field.number, WireType::Bytes);
                let content = self.out.len();
                self.elements(items, |rewriter, raw| rewriter.scalar(scalar, raw), scalar)?;
                if self.out.len() == content {
                    // Nothing but empty chunks: there is no such field.
                    self.out.truncate(start);
                } else {
                    self.insert_length(content);
                }
                Ok(())
            }
            Shape::Repeated(Value::Scalar(scalar)) => {
                let write = |rewriter: &mut Self, raw| {
                    rewriter.tag(field.number, scalar.wire());
                    rewriter.scalar(scalar, raw);
                };
                self.elements(items, write, scalar)
            }
            Shape::Repeated(value) => {
                items.iter().try_for_each(|item| self.value(field.number, value, &[item.raw.bytes()], depth))
            }
            Shape::Singular(Value::Scalar(scalar), presence) => {
                self.validate_replaced(items, depth)?;
                if presence == Presence::Explicit || !last.raw.is_default() {
                    self.tag(field.number, scalar.wire());
                    self.scalar(scalar, last.raw);
                }
                Ok(())
            }
            Shape::Singular(value, _) => {
                // Of a oneof, a member set again after another one starts afresh.
                let afresh = items.iter().rposition(|item| !is(item, field)).map_or(0, |other| other + 1);
                self.validate_replaced(&items[..afresh], depth)?;
                let pieces: Vec<_> = items[afresh..].iter().map(|item| item.raw.bytes()).collect();
                self.value(field.number, value, &pieces, depth)
            }
        }
    }

    /// What a later member of the oneof replaced is not written, but must be valid all the same.
    fn validate_replaced(&mut self, items: &[Item<'a, 'a>], depth: u32) -> Result<(), CanonicalError> {
        let start = self.out.len();
        for item in items {
            if let Some(FieldPlan { number, shape: Shape::Singular(value, _), .. }) = item.field {
                self.value(*number, *value, &[item.raw.bytes()], depth)?;
            }
        }
        self.out.truncate(start);
        Ok(())
    }

    /// Calls `write` with each value of a list of scalars, packed and unpacked ones alike.
    fn elements(
        &mut self,
        items: &[Item<'a, 'a>],
        mut write: impl FnMut(&mut Self, Raw<'a>),
        scalar: Scalar,
    ) -> Result<(), CanonicalError> {
        for item in items {
            match item.raw {
                Raw::Packed(chunk) => {
                    let mut reader = Reader::new(chunk);
                    while !reader.is_empty() {
                        write(self, read_scalar(&mut reader, scalar)?);
                    }
                }
                raw => write(self, raw),
            }
        }
        Ok(())
    }

    fn map(&mut self, number: u32, map: MapPlan, items: &[Item<'a, 'a>], depth: u32) -> Result<(), CanonicalError> {
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            entries.push(MapEntry::read(map, item.raw.bytes(), depth)?);
        }
        // Stable: of equal keys, the last to arrive is the last one here.
        entries.sort_by_key(|entry| entry.sort_key);
        for same in entries.chunk_by(|a, b| a.sort_key == b.sort_key) {
            for (index, entry) in same.iter().enumerate() {
                let start = self.out.len();
                self.tag(number, WireType::Bytes);
                let content = self.out.len();
                self.tag(1, map.key.wire());
                self.scalar(map.key, entry.key);
                match map.value {
                    Value::Scalar(scalar) => {
                        self.tag(2, scalar.wire());
                        self.scalar(scalar, entry.value);
                    }
                    value => self.value(2, value, &entry.pieces, depth)?,
                }
                self.insert_length(content);
                if index + 1 < same.len() {
                    // Replaced by a later entry; written only to see that it is valid.
                    self.out.truncate(start);
                }
            }
        }
        Ok(())
    }

    /// Writes a message or a group with its tag; of a scalar, which was checked when it was read, nothing.
    fn value(&mut self, number: u32, value: Value, pieces: &[&'a [u8]], depth: u32) -> Result<(), CanonicalError> {
        match value {
            Value::Group(id) => {
                self.tag(number, WireType::StartGroup);
                self.message(self.schema.message(id), pieces, deeper(depth)?)?;
                self.tag(number, WireType::EndGroup);
            }
            Value::Message(id) => {
                self.tag(number, WireType::Bytes);
                let start = self.out.len();
                self.message(self.schema.message(id), pieces, deeper(depth)?)?;
                self.insert_length(start);
            }
            Value::Scalar(_) => {}
        }
        Ok(())
    }

    fn scalar(&mut self, scalar: Scalar, raw: Raw<'a>) {
        match (scalar.wire(), raw) {
            (WireType::Fixed32, Raw::Number(number)) => self.out.extend_from_slice(&(number as u32).to_le_bytes()),
            (WireType::Fixed64, Raw::Number(number)) => self.out.extend_from_slice(&number.to_le_bytes()),
            (_, Raw::Number(number)) => self.varint(number),
            (_, raw) => {
                let bytes = raw.bytes();
                self.varint(bytes.len() as u64);
                self.out.extend_from_slice(bytes);
            }
        }
    }

    fn tag(&mut self, number: u32, wire: WireType) {
        self.varint(Tag { number, wire, minimal: true }.encoded());
    }

    fn varint(&mut self, value: u64) {
        prost::encoding::encode_varint(value, &mut self.out);
    }

    /// Puts the length of what was written since `start` in front of it.
    fn insert_length(&mut self, start: usize) {
        let end = self.out.len();
        self.varint((end - start) as u64);
        let added = self.out.len() - end;
        self.out[start..].rotate_right(added);
    }
}

fn is(item: &Item<'_, '_>, field: &FieldPlan) -> bool {
    item.field.is_some_and(|other| other.number == field.number)
}

/// Adds the fields of one piece of a message to `items`.
fn collect<'a, 'p>(
    plan: &'p MessagePlan,
    piece: &'a [u8],
    depth: u32,
    items: &mut Vec<Item<'a, 'p>>,
) -> Result<(), CanonicalError> {
    let mut reader = Reader::new(piece);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        let item = match plan.field(tag.number) {
            Some(field) if field.wire() == tag.wire => Item {
                field: Some(field),
                raw: match field.shape {
                    Shape::Map(_) => Raw::Bytes(reader.bytes()?.content),
                    Shape::Packed(_) => Raw::Packed(reader.bytes()?.content),
                    Shape::Repeated(value) | Shape::Singular(value, _) => {
                        read_value(&mut reader, value, tag.number, depth)?
                    }
                },
            },
            Some(field) if field.other_wire() == Some(tag.wire) => Item {
                field: Some(field),
                raw: match field.shape {
                    Shape::Packed(scalar) => read_scalar(&mut reader, scalar)?,
                    _ => Raw::Packed(reader.bytes()?.content),
                },
            },
            _ => {
                let start = reader.rest();
                reader.skip(tag, depth)?;
                let length = start.len() - reader.rest().len();
                Item { field: None, raw: Raw::Unknown(tag, &start[..length]) }
            }
        };
        items.push(item);
    }
    Ok(())
}

fn read_value<'a>(reader: &mut Reader<'a>, value: Value, number: u32, depth: u32) -> Result<Raw<'a>, CanonicalError> {
    match value {
        Value::Group(_) => reader.group(number, deeper(depth)?).map(Raw::Bytes),
        Value::Message(_) => Ok(Raw::Bytes(reader.bytes()?.content)),
        Value::Scalar(scalar) => read_scalar(reader, scalar),
    }
}

fn read_scalar<'a>(reader: &mut Reader<'a>, scalar: Scalar) -> Result<Raw<'a>, CanonicalError> {
    Ok(match scalar.wire() {
        WireType::Varint => Raw::Number(scalar.normalize(reader.varint()?.value)),
        WireType::Fixed32 => Raw::Number(scalar.normalize(reader.fixed32()?.into())),
        WireType::Fixed64 => Raw::Number(reader.fixed64()?),
        _ => {
            let content = reader.bytes()?.content;
            if scalar == Scalar::String && str::from_utf8(content).is_err() {
                return Err(Kind::InvalidUtf8.into());
            }
            Raw::Bytes(content)
        }
    })
}

struct MapEntry<'a> {
    sort_key: Key<'a>,
    key: Raw<'a>,
    /// The value, where it is a scalar.
    value: Raw<'a>,
    /// The pieces of the value, where it is a message.
    pieces: Vec<&'a [u8]>,
}

impl<'a> MapEntry<'a> {
    /// A missing key or value is the default; what else stands in an entry is dropped, as protobuf-go does.
    fn read(map: MapPlan, entry: &'a [u8], depth: u32) -> Result<Self, CanonicalError> {
        let mut key = default(map.key);
        let mut value = match map.value {
            Value::Scalar(scalar) => default(scalar),
            _ => Raw::Bytes(&[]),
        };
        let mut pieces = Vec::new();
        let mut reader = Reader::new(entry);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            if tag.number == 1 && tag.wire == map.key.wire() {
                key = read_scalar(&mut reader, map.key)?;
            } else if tag.number == 2 && tag.wire == map.value.wire() {
                value = read_value(&mut reader, map.value, tag.number, depth)?;
                if !matches!(map.value, Value::Scalar(_)) {
                    pieces.push(value.bytes());
                }
            } else {
                reader.skip(tag, depth)?;
            }
        }
        let sort_key = match key {
            Raw::Number(number) => Key::Number(number),
            raw => Key::Text(raw.bytes()),
        };
        Ok(Self { sort_key: sort_key.sortable(map.key), key, value, pieces })
    }
}

fn default<'a>(scalar: Scalar) -> Raw<'a> {
    match scalar.wire() {
        WireType::Bytes => Raw::Bytes(&[]),
        _ => Raw::Number(0),
    }
}
