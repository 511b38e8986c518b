//! The pass that proves that bytes are canonical already, without allocating.

use std::str;

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    reader::{Reader, WireType, deeper},
    schema::{FieldPlan, MapPlan, MessagePlan, Presence, Scalar, Schema, Shape, Value},
};

/// Whether `wire` is the canonical encoding of the message that it encodes.
///
/// Stops at the first thing that is not canonical, so an answer of `false` says nothing about what comes after it.
pub(super) fn is_canonical(schema: &Schema, wire: &[u8]) -> Result<bool, CanonicalError> {
    let mut check = Check { schema, reader: Reader::new(wire) };
    check.message(schema.root(), None, 0)
}

/// The rank of unknown fields, after all others.
const UNKNOWN: u32 = u32::MAX;

struct Check<'a> {
    schema: &'a Schema,
    reader: Reader<'a>,
}

impl<'a> Check<'a> {
    /// Reads one message: to the end of the bytes, or to the end tag of the group with number `group`.
    fn message(&mut self, plan: &MessagePlan, group: Option<u32>, depth: u32) -> Result<bool, CanonicalError> {
        let mut last_rank = None;
        let mut last_key = None;
        while !self.reader.is_empty() {
            let tag = self.reader.tag()?;
            if !tag.minimal {
                return Ok(false);
            }
            if tag.wire == WireType::EndGroup {
                return if group == Some(tag.number) { Ok(true) } else { Err(Kind::GroupMismatch.into()) };
            }
            let Some(field) = plan.field(tag.number).filter(|field| field.wire() == tag.wire) else {
                let other = plan.field(tag.number).and_then(FieldPlan::other_wire);
                if other == Some(tag.wire) {
                    return Ok(false);
                }
                self.reader.skip(tag, depth)?;
                last_rank = Some(UNKNOWN);
                continue;
            };

            let again = last_rank == Some(field.rank);
            let in_order = match field.shape {
                Shape::Map(_) | Shape::Repeated(_) => last_rank <= Some(field.rank),
                Shape::Packed(_) | Shape::Singular(..) => last_rank < Some(field.rank),
            };
            if !in_order {
                return Ok(false);
            }
            last_rank = Some(field.rank);

            let canonical = match field.shape {
                Shape::Map(map) => {
                    let previous = last_key.take().filter(|_| again);
                    self.map_entry(map, previous, depth)?.is_some_and(|key| {
                        last_key = Some(key);
                        true
                    })
                }
                Shape::Packed(scalar) => self.packed(scalar)?,
                Shape::Repeated(value) => self.value(value, field.number, depth)?.is_some(),
                Shape::Singular(value, presence) => match self.value(value, field.number, depth)? {
                    None => false,
                    Some(IsDefault(default)) => !default || presence == Presence::Explicit,
                },
            };
            if !canonical {
                return Ok(false);
            }
        }
        match group {
            None => Ok(true),
            Some(_) => Err(Kind::GroupMismatch.into()),
        }
    }

    /// Reads one value; `None` where it is not canonical.
    fn value(&mut self, value: Value, number: u32, depth: u32) -> Result<Option<IsDefault>, CanonicalError> {
        match value {
            Value::Group(id) => {
                let canonical = self.message(self.schema.message(id), Some(number), deeper(depth)?)?;
                Ok(canonical.then_some(IsDefault(false)))
            }
            Value::Message(id) => {
                let bytes = self.reader.bytes()?;
                if !bytes.minimal {
                    return Ok(None);
                }
                let mut inner = Check { schema: self.schema, reader: Reader::new(bytes.content) };
                let canonical = inner.message(self.schema.message(id), None, deeper(depth)?)?;
                Ok(canonical.then_some(IsDefault(false)))
            }
            Value::Scalar(scalar) => self.scalar(scalar).map(|key| key.map(|key| IsDefault(key.is_default()))),
        }
    }

    /// Reads one scalar; `None` where it is not canonical.
    fn scalar(&mut self, scalar: Scalar) -> Result<Option<Key<'a>>, CanonicalError> {
        match scalar.wire() {
            WireType::Varint => {
                let varint = self.reader.varint()?;
                let canonical = varint.minimal && scalar.normalize(varint.value) == varint.value;
                Ok(canonical.then_some(Key::Number(varint.value)))
            }
            WireType::Fixed32 => {
                let raw = self.reader.fixed32()?.into();
                Ok((scalar.normalize(raw) == raw).then_some(Key::Number(raw)))
            }
            WireType::Fixed64 => Ok(Some(Key::Number(self.reader.fixed64()?))),
            _ => {
                let bytes = self.reader.bytes()?;
                if scalar == Scalar::String && str::from_utf8(bytes.content).is_err() {
                    return Err(Kind::InvalidUtf8.into());
                }
                Ok(bytes.minimal.then_some(Key::Text(bytes.content)))
            }
        }
    }

    fn packed(&mut self, scalar: Scalar) -> Result<bool, CanonicalError> {
        let bytes = self.reader.bytes()?;
        if !bytes.minimal || bytes.content.is_empty() {
            return Ok(false);
        }
        let mut inner = Check { schema: self.schema, reader: Reader::new(bytes.content) };
        while !inner.reader.is_empty() {
            if inner.scalar(scalar)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads one map entry and gives its key; `None` where it is not canonical, or its key not above the one before it.
    fn map_entry(
        &mut self,
        map: MapPlan,
        previous: Option<Key<'a>>,
        depth: u32,
    ) -> Result<Option<Key<'a>>, CanonicalError> {
        let bytes = self.reader.bytes()?;
        if !bytes.minimal {
            return Ok(None);
        }
        let mut entry = Check { schema: self.schema, reader: Reader::new(bytes.content) };
        if !entry.next_is(1, map.key.wire())? {
            return Ok(None);
        }
        let Some(key) = entry.scalar(map.key)?.map(|key| key.sortable(map.key)) else {
            return Ok(None);
        };
        if previous.is_some_and(|previous| previous >= key) || !entry.next_is(2, map.value.wire())? {
            return Ok(None);
        }
        let value = entry.value(map.value, 2, depth)?;
        Ok((value.is_some() && entry.reader.is_empty()).then_some(key))
    }

    fn next_is(&mut self, number: u32, wire: WireType) -> Result<bool, CanonicalError> {
        if self.reader.is_empty() {
            return Ok(false);
        }
        let tag = self.reader.tag()?;
        Ok(tag.minimal && tag.number == number && tag.wire == wire)
    }
}

struct IsDefault(bool);

/// A scalar as it was read. Both of two keys of one map are the same variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<'a> {
    Number(u64),
    Text(&'a [u8]),
}

impl Key<'_> {
    fn is_default(self) -> bool {
        match self {
            Self::Number(raw) => raw == 0,
            Self::Text(text) => text.is_empty(),
        }
    }

    /// The key as it sorts among the keys of a map.
    pub(super) fn sortable(self, scalar: Scalar) -> Self {
        match self {
            Self::Number(raw) => Self::Number(scalar.sort_key(raw)),
            text => text,
        }
    }
}
