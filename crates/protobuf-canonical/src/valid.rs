//! The check whether bytes are a valid encoding of their message. It does not allocate, and reads each byte once.

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    check::canonical_entry,
    depth::deeper,
    reader::{Reader, WireType},
    schema::{MapPlan, MessagePlan, Scalar, Schema, Shape, Value},
    utf8::is_utf8,
};

/// Checks that `wire` is a valid encoding, of whatever form.
pub(super) fn check(schema: &Schema, wire: &[u8]) -> Result<(), CanonicalError> {
    Valid { schema, reader: Reader::new(wire) }.message(schema.root(), None, 0)
}

struct Valid<'a> {
    schema: &'a Schema,
    reader: Reader<'a>,
}

impl<'a> Valid<'a> {
    fn inside(&self, content: &'a [u8]) -> Self {
        Self { schema: self.schema, reader: Reader::new(content) }
    }

    /// Reads one message: to the end of the bytes, or to the end tag of the group with number `group`.
    fn message(&mut self, plan: &MessagePlan, group: Option<u32>, depth: u32) -> Result<(), CanonicalError> {
        let mut last = None;
        while !self.reader.is_empty() {
            let tag = self.reader.tag()?;
            let known = match last {
                // The same tag once more needs no search for its field.
                Some((encoded, known)) if encoded == tag.encoded() => known,
                _ => plan.known(tag),
            };
            last = Some((tag.encoded(), known));
            match known {
                Some(field) if field.tag == tag.encoded() => match field.shape {
                    Shape::Map(map) => self.entry(map, depth)?,
                    Shape::Packed(scalar) => self.packed(scalar)?,
                    Shape::Repeated(value) | Shape::Singular(value, _) => self.value(value, field.number, depth)?,
                },
                Some(field) => match field.shape {
                    Shape::Packed(scalar) => self.scalar(scalar)?,
                    Shape::Repeated(Value::Scalar(scalar)) => self.packed(scalar)?,
                    _ => self.reader.skip(tag, depth)?,
                },
                None if tag.wire == WireType::EndGroup => {
                    return if group == Some(tag.number()) { Ok(()) } else { Err(Kind::GroupMismatch.into()) };
                }
                None => self.reader.skip(tag, depth)?,
            }
        }
        if group.is_none() { Ok(()) } else { Err(Kind::GroupMismatch.into()) }
    }

    fn entry(&mut self, map: MapPlan, depth: u32) -> Result<(), CanonicalError> {
        let content = self.reader.bytes()?.content;
        if canonical_entry(self.schema, map, content).is_some() {
            return Ok(());
        }
        let mut entry = self.inside(content);
        while !entry.reader.is_empty() {
            let tag = entry.reader.tag()?;
            if tag.encoded() == map.key_tag() {
                entry.scalar(map.key)?;
            } else if tag.encoded() == map.value_tag() {
                entry.value(map.value, tag.number(), depth)?;
            } else {
                entry.reader.skip(tag, depth)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, value: Value, number: u32, depth: u32) -> Result<(), CanonicalError> {
        match value {
            Value::Group(id) => self.message(self.schema.message(id), Some(number), deeper(depth)?),
            Value::Message(id) => {
                let content = self.reader.bytes()?.content;
                self.inside(content).message(self.schema.message(id), None, deeper(depth)?)
            }
            Value::Scalar(scalar) => self.scalar(scalar),
        }
    }

    fn packed(&mut self, scalar: Scalar) -> Result<(), CanonicalError> {
        let content = self.reader.bytes()?.content;
        let mut elements = self.inside(content);
        while !elements.reader.is_empty() {
            elements.scalar(scalar)?;
        }
        Ok(())
    }

    #[inline]
    fn scalar(&mut self, scalar: Scalar) -> Result<(), CanonicalError> {
        match scalar.wire() {
            WireType::Varint => self.reader.varint().map(drop),
            WireType::Fixed32 => self.reader.fixed32().map(drop),
            WireType::Fixed64 => self.reader.fixed64().map(drop),
            _ => {
                let content = self.reader.bytes()?.content;
                if scalar == Scalar::String && !is_utf8(content) {
                    return Err(Kind::InvalidUtf8.into());
                }
                Ok(())
            }
        }
    }
}
