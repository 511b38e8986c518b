//! Removes ignored fields from a message as it arrived.

use prost::encoding::encode_varint;

use super::{
    CanonicalError,
    depth::deeper,
    reader::{Reader, Tag, WireType},
    schema::{FieldPlan, Keep, MapPlan, MessageId, MessagePlan, Schema, Shape, Value},
};

/// Returns the message without its ignored fields. All others keep their order and their encoding, except that the lengths and
/// tags of the messages around ignored fields are written anew, whether or not the fields are there.
///
/// Returns `None` if an ignored member of a oneof is set: whether it unsets another member depends on the schema.
///
/// The message must have been checked.
pub(super) fn strip(schema: &Schema, wire: &[u8]) -> Result<Option<Vec<u8>>, CanonicalError> {
    let mut strip = Strip { schema, has_member: false };
    let mut stripped = Vec::with_capacity(wire.len());
    strip.message(schema.root(), wire, 0, &mut stripped)?;
    Ok((!strip.has_member).then_some(stripped))
}

struct Strip<'a> {
    schema: &'a Schema,
    /// Whether an ignored member of a oneof is set.
    has_member: bool,
}

impl<'a> Strip<'a> {
    fn message(
        &mut self,
        plan: &MessagePlan,
        wire: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), CanonicalError> {
        let mut reader = Reader::new(wire);
        while !reader.is_empty() {
            let (start, tag) = (reader.rest(), reader.tag()?);
            let known = plan.known(tag);
            let around = known.and_then(|field| self.around(field.shape));
            match (known, around) {
                (Some(FieldPlan { keep: Keep::No { is_member }, .. }), _) => {
                    reader.skip(tag, depth)?;
                    self.has_member |= is_member;
                }
                (Some(FieldPlan { shape: Shape::Map(map), .. }), Some(inner)) => {
                    let entry = reader.bytes()?.content;
                    delimited(tag, out, |out| self.entry(*map, inner, entry, depth, out))?;
                }
                (Some(_), Some(inner)) => self.value(inner, tag, &mut reader, depth, out)?,
                _ => {
                    reader.skip(tag, depth)?;
                    out.extend_from_slice(&start[..start.len() - reader.rest().len()]);
                }
            }
        }
        Ok(())
    }

    /// Writes the content of a map entry.
    fn entry(
        &mut self,
        map: MapPlan,
        inner: MessageId,
        entry: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), CanonicalError> {
        let mut reader = Reader::new(entry);
        while !reader.is_empty() {
            let (start, tag) = (reader.rest(), reader.tag()?);
            if tag.encoded() == map.value_tag() {
                self.value(inner, tag, &mut reader, depth, out)?;
            } else {
                reader.skip(tag, depth)?;
                out.extend_from_slice(&start[..start.len() - reader.rest().len()]);
            }
        }
        Ok(())
    }

    /// Writes a message or a group, read after its tag.
    fn value(
        &mut self,
        id: MessageId,
        tag: Tag,
        reader: &mut Reader<'_>,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), CanonicalError> {
        let (plan, depth) = (self.schema.message(id), deeper(depth)?);
        match tag.wire {
            WireType::StartGroup => {
                let content = reader.group(tag.number(), depth)?;
                encode_varint(tag.encoded(), out);
                self.message(plan, content, depth, out)?;
                encode_varint(Tag::new(tag.number(), WireType::EndGroup).encoded(), out);
                Ok(())
            }
            _ => {
                let content = reader.bytes()?.content;
                delimited(tag, out, |out| self.message(plan, content, depth, out))
            }
        }
    }

    /// Returns the message in a field of this shape if one of its fields may be ignored.
    fn around(&self, shape: Shape) -> Option<MessageId> {
        let value = match shape {
            Shape::Map(map) => map.value,
            Shape::Repeated(value) | Shape::Singular(value, _) => value,
            Shape::Packed(_) => return None,
        };
        match value {
            Value::Group(id) | Value::Message(id) => Some(id).filter(|id| self.schema.message(*id).is_around_ignored),
            Value::Scalar(_) => None,
        }
    }
}

fn delimited(
    tag: Tag,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), CanonicalError>,
) -> Result<(), CanonicalError> {
    let mut content = Vec::new();
    write(&mut content)?;
    encode_varint(tag.encoded(), out);
    encode_varint(content.len() as u64, out);
    out.append(&mut content);
    Ok(())
}
