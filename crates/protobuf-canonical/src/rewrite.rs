//! The rewriter, for messages that did not arrive in canonical form.
//!
//! Merging the pieces of a message is the same as decoding them one after the other. So a message is a list of
//! pieces, and nothing is decoded into a tree: the fields of all pieces become a list of runs, which is sorted into
//! canonical order and written out. All messages share one list, used as a stack: the runs of a message lie above
//! those of the outer messages. The message has been checked before, so that replaced values need no second check.

use std::ops::Range;

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    depth::deeper,
    entry::Entries,
    output::Output,
    raw::{Raw, read_scalar},
    reader::{MAX_VARINT_LEN, Reader, WireType},
    run::{Runs, UNKNOWN},
    schema::{FieldPlan, Keep, MapPlan, MessageId, MessagePlan, Presence, Scalar, Schema, Shape, Value},
    valid,
};

/// The largest message that is rewritten, in bytes: positions have 31 bits.
const MAX_LEN: usize = (1 << 31) - 1;

/// Returns the canonical encoding of the message in `wire`.
pub(super) fn rewrite(schema: &Schema, wire: &[u8]) -> Result<Output, CanonicalError> {
    valid::check(schema, wire)?;
    if wire.len() > MAX_LEN {
        return Err(Kind::TooCostly.into());
    }
    let mut rewriter =
        Rewriter { schema, runs: Runs::new(wire), entries: Entries::new(wire), out: Output::new(wire.len()) };
    rewriter.runs.collect(schema.root(), wire, 0)?;
    rewriter.message(schema.root(), 0, 0)?;
    Ok(rewriter.out)
}

struct Rewriter<'a> {
    schema: &'a Schema,
    runs: Runs<'a>,
    entries: Entries,
    out: Output,
}

impl<'a> Rewriter<'a> {
    /// Writes the message whose fields are the runs from `first` on, and removes them.
    fn message(&mut self, plan: &'a MessagePlan, first: usize, depth: u32) -> Result<(), CanonicalError> {
        if self.runs.len() > first + 1 {
            self.runs.sort(first);
        }
        let end = self.runs.len();
        let mut next = first;
        while next < end {
            let rank = self.runs.get(next).rank;
            let same = (next..end).take_while(|index| self.runs.get(*index).rank == rank).count();
            match rank {
                UNKNOWN => self.unknown(next..next + same, depth)?,
                _ => self.field(plan, next..next + same, depth)?,
            }
            next += same;
        }
        self.runs.truncate(first);
        Ok(())
    }

    /// Writes a field or the members of a oneof. `of` are all runs of that rank.
    fn field(&mut self, plan: &'a MessagePlan, of: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        let Some(field) = self.field_of(plan, of.end - 1)?.filter(|field| field.keep == Keep::Yes) else {
            return Ok(());
        };
        match field.shape {
            Shape::Map(map) => self.map(field.tag, map, of, depth),
            Shape::Packed(scalar) => self.packed(field.tag, scalar, of),
            Shape::Repeated(Value::Scalar(scalar)) => self.elements(of, scalar, |rewriter, raw| {
                rewriter.out.varint(field.tag);
                rewriter.scalar(scalar, raw);
            }),
            Shape::Repeated(Value::Group(id) | Value::Message(id)) => {
                for index in of {
                    let mut reader = self.runs.reader(self.runs.get(index));
                    while !reader.is_empty() {
                        let (first, arrived) = (self.runs.len(), self.piece(&mut reader, id, depth)?);
                        self.value(field.tag, id, first, arrived, depth)?;
                    }
                }
                Ok(())
            }
            Shape::Singular(Value::Scalar(scalar), presence) => {
                let mut reader = self.runs.reader(self.runs.get(of.end - 1));
                reader.tag()?;
                let raw = read_scalar(&mut reader, scalar)?;
                if presence == Presence::Explicit || !raw.is_default() {
                    self.make_room(raw)?;
                    self.out.varint(field.tag);
                    self.scalar(scalar, raw);
                }
                Ok(())
            }
            Shape::Singular(Value::Group(id) | Value::Message(id), _) => {
                // A member of a oneof that is set again after another member starts from an empty message.
                let mut afresh = of.end - 1;
                while afresh > of.start && self.field_of(plan, afresh - 1)?.is_some_and(|it| it.number == field.number)
                {
                    afresh -= 1;
                }
                let (first, mut arrived) = (self.runs.len(), 0);
                for index in afresh..of.end {
                    let mut reader = self.runs.reader(self.runs.get(index));
                    while !reader.is_empty() {
                        arrived += self.piece(&mut reader, id, depth)?;
                    }
                }
                self.value(field.tag, id, first, arrived, depth)
            }
        }
    }

    /// Returns the field of a run.
    fn field_of(&self, plan: &'a MessagePlan, run: usize) -> Result<Option<&'a FieldPlan>, CanonicalError> {
        Ok(plan.field(self.runs.reader(self.runs.get(run)).tag()?.number()))
    }

    fn unknown(&mut self, of: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        for index in of {
            let mut reader = self.runs.reader(self.runs.get(index));
            while !reader.is_empty() {
                let tag = reader.tag()?;
                let start = reader.rest();
                reader.skip(tag, depth)?;
                let rest = &start[..start.len() - reader.rest().len()];
                self.make_room(Raw::Bytes(rest))?;
                self.out.varint(tag.encoded());
                self.out.extend(rest);
            }
        }
        Ok(())
    }

    fn packed(&mut self, tag: u64, scalar: Scalar, of: Range<usize>) -> Result<(), CanonicalError> {
        self.make_room(Raw::Number(0))?;
        let start = self.out.len();
        self.out.varint(tag);
        let arrived = of.clone().map(|index| self.runs.reader(self.runs.get(index)).rest().len()).sum();
        let length = self.delimited(arrived, |rewriter| {
            rewriter.elements(of, scalar, |rewriter, raw| rewriter.scalar(scalar, raw))
        })?;
        if length == 0 {
            // Only empty chunks: the list is empty.
            self.out.truncate(start);
        }
        Ok(())
    }

    /// Calls `write` with each value of a list of scalars, packed or not.
    fn elements(
        &mut self,
        of: Range<usize>,
        scalar: Scalar,
        mut write: impl FnMut(&mut Self, Raw<'a>),
    ) -> Result<(), CanonicalError> {
        for index in of {
            let mut reader = self.runs.reader(self.runs.get(index));
            while !reader.is_empty() {
                let tag = reader.tag()?;
                if tag.wire == scalar.wire() {
                    let raw = read_scalar(&mut reader, scalar)?;
                    self.make_room(raw)?;
                    write(self, raw);
                    continue;
                }
                let mut chunk = Reader::new(reader.bytes()?.content);
                while !chunk.is_empty() {
                    let raw = read_scalar(&mut chunk, scalar)?;
                    self.make_room(raw)?;
                    write(self, raw);
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, tag: u64, map: MapPlan, of: Range<usize>, depth: u32) -> Result<(), CanonicalError> {
        let first = self.entries.len();
        self.entries.collect(self.schema, map, &self.runs, of, depth)?;
        for index in first..self.entries.len() {
            let entry = self.entries.get(index);
            let content = entry.content(&self.runs)?;
            self.make_room(Raw::Bytes(content))?;
            self.out.varint(tag);
            match entry.is_canonical() {
                true => self.bytes(content),
                false => self.entry(map, content, depth)?,
            }
        }
        self.entries.truncate(first);
        Ok(())
    }

    /// Writes the content of a map entry. A missing key or value is the default; unknown fields are dropped, as by
    /// protobuf-go.
    fn entry(&mut self, map: MapPlan, content: &'a [u8], depth: u32) -> Result<(), CanonicalError> {
        let (mut key, mut value) = (Raw::default(map.key), None);
        let (first, mut arrived) = (self.runs.len(), 0);
        let mut reader = Reader::new(content);
        while !reader.is_empty() {
            let at_tag = reader.clone();
            let tag = reader.tag()?;
            if tag.encoded() == map.key_tag() {
                key = read_scalar(&mut reader, map.key)?;
            } else if tag.encoded() == map.value_tag() {
                match map.value {
                    Value::Scalar(scalar) => value = Some(read_scalar(&mut reader, scalar)?),
                    Value::Group(id) | Value::Message(id) => {
                        reader = at_tag;
                        arrived += self.piece(&mut reader, id, depth)?;
                    }
                }
            } else {
                reader.skip(tag, depth)?;
            }
        }
        self.delimited(content.len(), |rewriter| {
            rewriter.make_room(key)?;
            rewriter.out.varint(map.key_tag());
            rewriter.scalar(map.key, key);
            match map.value {
                Value::Scalar(scalar) => {
                    let value = value.unwrap_or(Raw::default(scalar));
                    rewriter.make_room(value)?;
                    rewriter.out.varint(map.value_tag());
                    rewriter.scalar(scalar, value);
                    Ok(())
                }
                Value::Group(id) | Value::Message(id) => rewriter.value(map.value_tag(), id, first, arrived, depth),
            }
        })?;
        Ok(())
    }

    /// Reads one piece of a message or a group, from its tag on, and adds its runs. Returns its size in bytes. `depth` is
    /// that of the message around it.
    fn piece(&mut self, reader: &mut Reader<'a>, id: MessageId, depth: u32) -> Result<usize, CanonicalError> {
        let tag = reader.tag()?;
        let content = match tag.wire {
            WireType::StartGroup => reader.group(tag.number(), deeper(depth)?)?,
            _ => reader.bytes()?.content,
        };
        self.runs.collect(self.schema.message(id), content, deeper(depth)?)?;
        Ok(content.len())
    }

    /// Writes a message or a group with its tag. Its fields are the runs from `first` on, which arrived as this many
    /// bytes.
    fn value(
        &mut self,
        tag: u64,
        id: MessageId,
        first: usize,
        arrived: usize,
        depth: u32,
    ) -> Result<(), CanonicalError> {
        let (plan, depth) = (self.schema.message(id), deeper(depth)?);
        self.make_room(Raw::Number(0))?;
        self.out.varint(tag);
        let end_tag = tag & !7 | WireType::EndGroup as u64;
        match tag & 7 == WireType::StartGroup as u64 {
            true => {
                self.message(plan, first, depth)?;
                self.out.varint(end_tag);
                Ok(())
            }
            false => self.delimited(arrived, |rewriter| rewriter.message(plan, first, depth)).map(drop),
        }
    }

    fn scalar(&mut self, scalar: Scalar, raw: Raw<'a>) {
        match (scalar.wire(), raw) {
            (WireType::Fixed32, Raw::Number(number)) => self.out.extend(&(number as u32).to_le_bytes()),
            (WireType::Fixed64, Raw::Number(number)) => self.out.extend(&number.to_le_bytes()),
            (_, Raw::Number(number)) => self.out.varint(number),
            (_, Raw::Bytes(bytes)) => self.bytes(bytes),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out.varint(bytes.len() as u64);
        self.out.extend(bytes);
    }

    /// Makes room for a value and its tag.
    #[inline]
    fn make_room(&mut self, raw: Raw<'_>) -> Result<(), CanonicalError> {
        self.out.make_room(match raw {
            Raw::Bytes(bytes) => bytes.len(),
            Raw::Number(_) => MAX_VARINT_LEN,
        })
    }

    /// Calls `write`, puts the length of its output before the output, and returns that length. `arrived` is the length
    /// that it is likely to have.
    fn delimited(
        &mut self,
        arrived: usize,
        write: impl FnOnce(&mut Self) -> Result<(), CanonicalError>,
    ) -> Result<usize, CanonicalError> {
        let delimited = self.out.begin_delimited(arrived);
        write(self)?;
        Ok(self.out.end_delimited(delimited))
    }
}
