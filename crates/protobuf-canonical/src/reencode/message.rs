//! A message as the records of its encoding.

use std::borrow::Cow;

use prost::encoding::encoded_len_varint;

use crate::{
    reader::{Tag, WireType},
    run::UNKNOWN,
    schema::{FieldPlan, Scalar},
};

/// A message, a group or a map entry.
#[derive(Clone)]
pub(super) struct Message<'a> {
    pub(super) fields: Cow<'a, [FieldPlan]>,
    pub(super) records: Vec<Record<'a>>,
}

/// A tag with its content.
#[derive(Clone)]
pub(super) struct Record<'a> {
    pub(super) tag: Varint,
    /// `None` if it is unknown.
    pub(super) field: Option<FieldPlan>,
    pub(super) content: Content<'a>,
}

impl<'a> Record<'a> {
    /// Creates a record in the wire type of the field's canonical encoding.
    pub(super) fn new(field: FieldPlan, content: Content<'a>) -> Self {
        Self { tag: Varint::new(field.tag), field: Some(field), content }
    }

    /// Returns the position of its field in the canonical order, which the members of a oneof share.
    pub(super) fn rank(&self) -> u32 {
        self.field.map_or(UNKNOWN, |field| field.rank)
    }

    pub(super) fn is_of(&self, field: FieldPlan) -> bool {
        self.field.is_some_and(|it| it.number == field.number)
    }
}

#[derive(Clone)]
pub(super) enum Content<'a> {
    /// A string or bytes.
    Bytes(Delimited<Cow<'a, [u8]>>),
    Group {
        message: Message<'a>,
        end: Varint,
    },
    /// A message or a map entry.
    Message(Delimited<Message<'a>>),
    /// Its elements are numbers.
    Packed(Delimited<Vec<Content<'a>>>),
    Varint(Varint),
    /// A fixed32 or a fixed64; all of an unknown field behind its tag.
    Verbatim(Cow<'a, [u8]>),
}

impl<'a> Content<'a> {
    pub(super) fn bytes(bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::Bytes(Delimited::new(bytes.into()))
    }

    pub(super) fn default(scalar: Scalar) -> Self {
        match scalar.wire() {
            WireType::Varint => Self::Varint(Varint::new(0)),
            WireType::Fixed32 => Self::Verbatim([0; 4].as_slice().into()),
            WireType::Fixed64 => Self::Verbatim([0; 8].as_slice().into()),
            _ => Self::bytes([].as_slice()),
        }
    }

    pub(super) fn group(number: u32, message: Message<'a>) -> Self {
        Self::Group { message, end: Varint::new(Tag::new(number, WireType::EndGroup).encoded()) }
    }

    /// Returns the message, group or map entry.
    pub(super) fn message_mut(&mut self) -> Option<&mut Message<'a>> {
        match self {
            Self::Group { message, .. } | Self::Message(Delimited { content: message, .. }) => Some(message),
            _ => None,
        }
    }
}

/// A content behind its length.
#[derive(Clone)]
pub(super) struct Delimited<T> {
    /// The bytes to which the length is padded.
    pub(super) width: usize,
    pub(super) content: T,
}

impl<T> Delimited<T> {
    pub(super) fn new(content: T) -> Self {
        Self { width: 0, content }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Varint {
    pub(super) value: u64,
    /// The bytes to which it is padded.
    pub(super) width: usize,
}

impl Varint {
    pub(super) fn new(value: u64) -> Self {
        Self { value, width: 0 }
    }

    /// Creates a varint that has this many bytes.
    pub(super) fn of_len(value: u64, len: usize) -> Self {
        Self { value, width: if len > encoded_len_varint(value) { len } else { 0 } }
    }
}
