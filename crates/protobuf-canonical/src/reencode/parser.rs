//! The parser of an encoded message.

use std::borrow::Cow;

use super::message::{Content, Delimited, Message, Record, Varint};
use crate::{
    CanonicalError,
    depth::deeper,
    reader::{Reader, Tag, WireType},
    schema::{FieldPlan, MapPlan, Scalar, Schema, Shape, Value},
};

/// Parses a message, which must have been checked.
pub(super) fn parse<'a>(schema: &'a Schema, wire: &'a [u8]) -> Result<Message<'a>, CanonicalError> {
    Parser { schema }.message(schema.root().fields().into(), wire, 0)
}

#[derive(Clone, Copy)]
struct Parser<'a> {
    schema: &'a Schema,
}

impl<'a> Parser<'a> {
    fn message(self, fields: Cow<'a, [FieldPlan]>, wire: &'a [u8], depth: u32) -> Result<Message<'a>, CanonicalError> {
        let (mut records, mut reader) = (Vec::new(), Reader::new(wire));
        while !reader.is_empty() {
            let (tag, bytes) = with_bytes(&mut reader, Reader::tag)?;
            let field =
                fields.iter().find(|field| field.number == tag.number()).filter(|field| field.takes(tag)).copied();
            let content = match field {
                Some(field) => self.field(field, tag, &mut reader, depth)?,
                None => Content::Verbatim(with_bytes(&mut reader, |reader| reader.skip(tag, depth))?.1.into()),
            };
            records.push(Record { tag: Varint::of_len(tag.encoded(), bytes.len()), field, content });
        }
        Ok(Message { fields, records })
    }

    fn field(
        self,
        field: FieldPlan,
        tag: Tag,
        reader: &mut Reader<'a>,
        depth: u32,
    ) -> Result<Content<'a>, CanonicalError> {
        match field.shape {
            Shape::Map(map) => self.entry(map, reader, depth),
            Shape::Packed(scalar) | Shape::Repeated(Value::Scalar(scalar)) if tag.wire != scalar.wire() => {
                packed(scalar, reader)
            }
            Shape::Packed(scalar) => self::scalar(scalar, reader),
            Shape::Repeated(value) | Shape::Singular(value, _) => self.value(value, field.number, reader, depth),
        }
    }

    fn entry(self, map: MapPlan, reader: &mut Reader<'a>, depth: u32) -> Result<Content<'a>, CanonicalError> {
        let Delimited { width, content } = delimited(reader)?;
        let content = self.message(map.fields().to_vec().into(), content, depth)?;
        Ok(Content::Message(Delimited { width, content }))
    }

    fn value(
        self,
        value: Value,
        number: u32,
        reader: &mut Reader<'a>,
        depth: u32,
    ) -> Result<Content<'a>, CanonicalError> {
        match value {
            Value::Group(id) => {
                let depth = deeper(depth)?;
                let (content, bytes) = with_bytes(reader, |reader| reader.group(number, depth))?;
                let message = self.message(self.schema.message(id).fields().into(), content, depth)?;
                let end = Tag::new(number, WireType::EndGroup).encoded();
                Ok(Content::Group { message, end: Varint::of_len(end, bytes.len() - content.len()) })
            }
            Value::Message(id) => {
                let Delimited { width, content } = delimited(reader)?;
                let content = self.message(self.schema.message(id).fields().into(), content, deeper(depth)?)?;
                Ok(Content::Message(Delimited { width, content }))
            }
            Value::Scalar(scalar) => self::scalar(scalar, reader),
        }
    }
}

fn packed<'a>(scalar: Scalar, reader: &mut Reader<'a>) -> Result<Content<'a>, CanonicalError> {
    let Delimited { width, content } = delimited(reader)?;
    let (mut elements, mut reader) = (Vec::new(), Reader::new(content));
    while !reader.is_empty() {
        elements.push(self::scalar(scalar, &mut reader)?);
    }
    Ok(Content::Packed(Delimited { width, content: elements }))
}

fn scalar<'a>(scalar: Scalar, reader: &mut Reader<'a>) -> Result<Content<'a>, CanonicalError> {
    match scalar.wire() {
        WireType::Bytes => {
            let Delimited { width, content } = delimited(reader)?;
            Ok(Content::Bytes(Delimited { width, content: content.into() }))
        }
        WireType::Varint => {
            let (varint, bytes) = with_bytes(reader, Reader::varint)?;
            Ok(Content::Varint(Varint::of_len(varint.value, bytes.len())))
        }
        wire => Ok(Content::Verbatim(with_bytes(reader, |reader| reader.number(wire))?.1.into())),
    }
}

fn delimited<'a>(reader: &mut Reader<'a>) -> Result<Delimited<&'a [u8]>, CanonicalError> {
    let (bytes, all) = with_bytes(reader, Reader::bytes)?;
    let length = Varint::of_len(bytes.content.len() as u64, all.len() - bytes.content.len());
    Ok(Delimited { width: length.width, content: bytes.content })
}

/// Calls `read`, and returns the bytes that it has read beside its result.
fn with_bytes<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, CanonicalError>,
) -> Result<(T, &'a [u8]), CanonicalError> {
    let start = reader.rest();
    let read = read(reader)?;
    Ok((read, &start[..start.len() - reader.rest().len()]))
}
