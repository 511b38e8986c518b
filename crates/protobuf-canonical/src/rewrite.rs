//! The rewriter, for messages that did not arrive in canonical form.
//!
//! To merge the pieces of a message is the same as to decode them one after the other. So a message is a list of
//! pieces, and nothing is decoded into a tree: the fields of all pieces become a list of spans, which is sorted into
//! canonical order and written out. All messages share one list, used as a stack: the spans of a message lie above
//! those of the outer messages.

use std::ops::Range;

use prost::encoding::{encode_varint, encoded_len_varint};

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    check::canonical_entry,
    reader::{MAX_VARINT_LEN, Reader, Tag, WireType, deeper},
    schema::{FieldPlan, MapPlan, MessagePlan, Presence, Scalar, Schema, Shape, Value},
    sort_key::SortKey,
    utf8::is_utf8,
};

/// Returns the canonical encoding of the message in `wire`.
pub(super) fn rewrite(schema: &Schema, wire: &[u8]) -> Result<Vec<u8>, CanonicalError> {
    // Enough for a small message.
    let mut items = Vec::with_capacity(32);
    items.push(Item::piece(wire));
    let out = Vec::with_capacity(wire.len() + 16);
    let mut rewriter = Rewriter { schema, items, entries: Vec::new(), out };
    rewriter.message(schema.root(), 0..1, 0)?;
    Ok(rewriter.out)
}

struct Rewriter<'a> {
    schema: &'a Schema,
    /// The fields of the messages being written, those of the innermost one last.
    items: Vec<Item<'a>>,
    /// The entries of the maps being written, those of the innermost one last.
    entries: Vec<MapEntry<'a>>,
    out: Vec<u8>,
}

/// One field of a message, as it arrived.
#[derive(Clone, Copy)]
struct Item<'a> {
    /// `None` for an unknown field, which is written last.
    field: Option<&'a FieldPlan>,
    raw: Raw<'a>,
}

impl<'a> Item<'a> {
    /// Returns a piece of a message whose field does not matter.
    fn piece(content: &'a [u8]) -> Self {
        Self { field: None, raw: Raw::Bytes(content) }
    }

    fn rank(&self) -> u32 {
        self.field.map_or(u32::MAX, |field| field.rank)
    }
}

#[derive(Clone, Copy)]
enum Raw<'a> {
    /// The content of a length-delimited field or of a group.
    Bytes(&'a [u8]),
    /// A normalized varint, a fixed32 or a fixed64.
    Number(u64),
    /// Several values of a packed list.
    Packed(&'a [u8]),
    /// An unknown field: its encoded tag, and the rest of it verbatim.
    Unknown(u32, &'a [u8]),
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
    /// Writes the message that results from merging the items at `pieces`.
    fn message(&mut self, plan: &'a MessagePlan, pieces: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        let start = self.items.len();
        for index in pieces {
            let piece = self.items[index].raw.bytes();
            collect(plan, piece, depth, &mut self.items)?;
        }
        // A stable sort: items of one rank stay in order of arrival.
        self.items[start..].sort_by_key(Item::rank);
        let end = self.items.len();
        let mut next = start;
        while next < end {
            let rank = self.items[next].rank();
            let same = self.items[next..end].iter().take_while(|item| item.rank() == rank).count();
            self.field(next..next + same, depth)?;
            next += same;
        }
        self.items.truncate(start);
        Ok(())
    }

    /// Writes a field or the members of a oneof. `items` are all items of that rank.
    fn field(&mut self, items: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        let Some(last) = self.items[items.clone()].last().copied() else { return Ok(()) };
        let Some(field) = last.field else {
            self.unknown(items);
            return Ok(());
        };
        match field.shape {
            Shape::Map(map) => self.map(field.tag, map, items, depth),
            Shape::Packed(scalar) => {
                let start = self.out.len();
                self.varint(field.tag);
                let chunks = self.items[items.clone()].iter().map(|item| item.raw.bytes().len()).sum();
                let length = self.delimited(chunks, |rewriter| {
                    rewriter.elements(items, |rewriter, raw| rewriter.scalar(scalar, raw), scalar)
                })?;
                if length == 0 {
                    // Only empty chunks: the list is empty.
                    self.out.truncate(start);
                }
                Ok(())
            }
            Shape::Repeated(Value::Scalar(scalar)) => {
                let write = |rewriter: &mut Self, raw| {
                    rewriter.varint(field.tag);
                    rewriter.scalar(scalar, raw);
                };
                self.elements(items, write, scalar)
            }
            Shape::Repeated(value) => {
                items.into_iter().try_for_each(|index| self.value(field.number, value, index..index + 1, depth))
            }
            Shape::Singular(Value::Scalar(scalar), presence) => {
                self.validate_replaced(items, depth)?;
                if presence == Presence::Explicit || !last.raw.is_default() {
                    self.varint(field.tag);
                    self.scalar(scalar, last.raw);
                }
                Ok(())
            }
            Shape::Singular(value, _) => {
                // A member of a oneof that is set again after another member starts from an empty message.
                let other = self.items[items.clone()].iter().rposition(|item| !is(item, field));
                let afresh = items.start + other.map_or(0, |other| other + 1);
                self.validate_replaced(items.start..afresh, depth)?;
                self.value(field.number, value, afresh..items.end, depth)
            }
        }
    }

    fn unknown(&mut self, items: Range<usize>) {
        for index in items {
            if let Raw::Unknown(tag, rest) = self.items[index].raw {
                self.varint(tag.into());
                self.out.extend_from_slice(rest);
            }
        }
    }

    /// Checks the members of a oneof that a later member replaced: they are not written, but must be valid.
    fn validate_replaced(&mut self, items: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        let start = self.out.len();
        for index in items {
            if let Some(FieldPlan { number, shape: Shape::Singular(value, _), .. }) = self.items[index].field {
                self.value(*number, *value, index..index + 1, depth)?;
            }
        }
        self.out.truncate(start);
        Ok(())
    }

    /// Calls `write` with each value of a list of scalars, packed or not.
    fn elements(
        &mut self,
        items: Range<usize>,
        mut write: impl FnMut(&mut Self, Raw<'a>),
        scalar: Scalar,
    ) -> Result<(), CanonicalError> {
        for index in items {
            match self.items[index].raw {
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

    fn map(&mut self, tag: u64, map: MapPlan, items: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        let start = self.entries.len();
        for index in items {
            let entry = self.read_entry(map, self.items[index].raw.bytes(), depth)?;
            self.entries.push(entry);
        }
        // A stable sort: of equal keys, the last to arrive stays last.
        self.entries[start..].sort_by_key(|entry| entry.sort_key);
        let end = self.entries.len();
        for index in start..end {
            let entry = self.entries[index];
            let written = self.out.len();
            self.varint(tag);
            self.map_entry(map, entry, depth)?;
            if index + 1 < end && self.entries[index + 1].sort_key == entry.sort_key {
                // A later entry replaces this one, which was written only to check that it is valid.
                self.out.truncate(written);
            }
        }
        self.entries.truncate(start);
        Ok(())
    }

    fn read_entry(&mut self, map: MapPlan, content: &'a [u8], depth: u32) -> Result<MapEntry<'a>, CanonicalError> {
        if let Some(sort_key) = canonical_entry(self.schema, map, content) {
            return Ok(MapEntry { sort_key, content, canonical: true });
        }
        let start = self.items.len();
        let sort_key = match KeyAndValue::read(map, content, depth, &mut self.items)?.key {
            Raw::Number(number) => SortKey::of_number(map.key, number),
            raw => SortKey::of_text(raw.bytes()),
        };
        self.items.truncate(start);
        Ok(MapEntry { sort_key, content, canonical: false })
    }

    fn map_entry(&mut self, map: MapPlan, entry: MapEntry<'a>, depth: u32) -> Result<(), CanonicalError> {
        if entry.canonical {
            self.bytes(entry.content);
            return Ok(());
        }
        let start = self.items.len();
        let KeyAndValue { key, value } = KeyAndValue::read(map, entry.content, depth, &mut self.items)?;
        let pieces = start..self.items.len();
        self.delimited(entry.content.len(), |rewriter| {
            rewriter.varint(map.key_tag());
            rewriter.scalar(map.key, key);
            match map.value {
                Value::Scalar(scalar) => {
                    rewriter.varint(map.value_tag());
                    rewriter.scalar(scalar, value);
                    Ok(())
                }
                value => rewriter.value(2, value, pieces, depth),
            }
        })?;
        self.items.truncate(start);
        Ok(())
    }

    /// Writes a message or a group with its tag. Does nothing for a scalar, which was checked when it was read.
    fn value(&mut self, number: u32, value: Value, pieces: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        match value {
            Value::Group(id) => {
                self.tag(number, WireType::StartGroup);
                self.message(self.schema.message(id), pieces, deeper(depth)?)?;
                self.tag(number, WireType::EndGroup);
            }
            Value::Message(id) => {
                self.tag(number, WireType::Bytes);
                let arrived = self.items[pieces.clone()].iter().map(|item| item.raw.bytes().len()).sum();
                let message = self.schema.message(id);
                self.delimited(arrived, |rewriter| rewriter.message(message, pieces, deeper(depth)?))?;
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
            (_, raw) => self.bytes(raw.bytes()),
        }
    }

    fn tag(&mut self, number: u32, wire: WireType) {
        self.varint(Tag::new(number, wire).encoded());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        match u8::try_from(value) {
            Ok(byte @ 0..0x80) => self.out.push(byte),
            _ => encode_varint(value, &mut self.out),
        }
    }

    /// Calls `write`, inserts the length of its output before the output, and returns that length. Reserves as many
    /// bytes for the length prefix as the length `arrived` takes: usually the prefix fits and nothing has to be moved.
    fn delimited(
        &mut self,
        arrived: usize,
        write: impl FnOnce(&mut Self) -> Result<(), CanonicalError>,
    ) -> Result<usize, CanonicalError> {
        let start = self.out.len();
        let content = start + encoded_len_varint(arrived as u64);
        self.out.resize(content, 0);
        write(self)?;
        let length = self.out.len() - content;
        self.fill_in_length(start..content, length as u64);
        Ok(length)
    }

    fn fill_in_length(&mut self, room: Range<usize>, length: u64) {
        let mut encoded = [0; MAX_VARINT_LEN];
        let mut unused = encoded.as_mut_slice();
        encode_varint(length, &mut unused);
        let unused = unused.len();
        let encoded = &encoded[..MAX_VARINT_LEN - unused];
        if room.len() == encoded.len() {
            self.out[room].copy_from_slice(encoded);
        } else {
            self.out.splice(room, encoded.iter().copied());
        }
    }
}

fn is(item: &Item<'_>, field: &FieldPlan) -> bool {
    item.field.is_some_and(|other| other.number == field.number)
}

/// Appends the fields of one piece of a message to `items`.
fn collect<'a>(
    plan: &'a MessagePlan,
    piece: &'a [u8],
    depth: u32,
    items: &mut Vec<Item<'a>>,
) -> Result<(), CanonicalError> {
    let mut reader = Reader::new(piece);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        let item = match plan.field(tag.number()) {
            Some(field) if field.tag == tag.encoded() => Item {
                field: Some(field),
                raw: match field.shape {
                    Shape::Map(_) => Raw::Bytes(reader.bytes()?.content),
                    Shape::Packed(_) => Raw::Packed(reader.bytes()?.content),
                    Shape::Repeated(value) | Shape::Singular(value, _) => {
                        read_value(&mut reader, value, tag.number(), depth)?
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
                Item { field: None, raw: Raw::Unknown(tag.encoded() as u32, &start[..length]) }
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
            if scalar == Scalar::String && !is_utf8(content) {
                return Err(Kind::InvalidUtf8.into());
            }
            Raw::Bytes(content)
        }
    })
}

/// A map entry as it arrived.
#[derive(Clone, Copy)]
struct MapEntry<'a> {
    sort_key: SortKey<'a>,
    content: &'a [u8],
    /// Whether the content can be copied unchanged.
    canonical: bool,
}

/// The key and the value of a map entry.
struct KeyAndValue<'a> {
    key: Raw<'a>,
    /// The value if it is a scalar; otherwise its pieces are in the list passed to [`read`](Self::read).
    value: Raw<'a>,
}

impl<'a> KeyAndValue<'a> {
    /// Reads an entry. A missing key or value is the default; unknown fields are dropped, as by protobuf-go. If the
    /// value is a message, its pieces are appended to `pieces`.
    fn read(map: MapPlan, entry: &'a [u8], depth: u32, pieces: &mut Vec<Item<'a>>) -> Result<Self, CanonicalError> {
        let mut key = default(map.key);
        let mut value = match map.value {
            Value::Scalar(scalar) => default(scalar),
            _ => Raw::Bytes(&[]),
        };
        let mut reader = Reader::new(entry);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            if tag.encoded() == map.key_tag() {
                key = read_scalar(&mut reader, map.key)?;
            } else if tag.encoded() == map.value_tag() {
                value = read_value(&mut reader, map.value, tag.number(), depth)?;
                if !matches!(map.value, Value::Scalar(_)) {
                    pieces.push(Item::piece(value.bytes()));
                }
            } else {
                reader.skip(tag, depth)?;
            }
        }
        Ok(Self { key, value })
    }
}

fn default<'a>(scalar: Scalar) -> Raw<'a> {
    match scalar.wire() {
        WireType::Bytes => Raw::Bytes(&[]),
        _ => Raw::Number(0),
    }
}
