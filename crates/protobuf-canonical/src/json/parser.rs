//! The parser: protobuf's JSON to binary.

use prost_reflect::MessageDescriptor;

use super::encoders::Encoders;

/// Parses a message into its binary encoding. The result is not canonical: it holds every field of the JSON, defaults
/// included.
#[derive(Clone, Copy)]
pub(super) struct MessageParser<'a> {
    pub(super) descriptor: &'a MessageDescriptor,
    pub(super) ignore_unknown_fields: bool,
    pub(super) encoders: &'a Encoders,
    pub(super) depth: u32,
    /// The one member that is not a field: `@type` in the message of an `Any`.
    pub(super) beside: Option<&'static str>,
}

impl<'a> MessageParser<'a> {
    pub(super) fn new(descriptor: &'a MessageDescriptor, ignore_unknown_fields: bool, encoders: &'a Encoders) -> Self {
        Self { descriptor, ignore_unknown_fields, encoders, depth: 0, beside: None }
    }

    /// Returns a parser for a message inside this one, `deeper` levels below it.
    pub(super) fn inner<'b>(self, descriptor: &'b MessageDescriptor, deeper: u32) -> MessageParser<'b>
    where
        'a: 'b,
    {
        MessageParser { descriptor, depth: self.depth.saturating_add(deeper), beside: None, ..self }
    }

    /// Returns a parser that ignores the member `member`, which is not a field.
    pub(super) fn beside(self, member: &'static str) -> Self {
        Self { beside: Some(member), ..self }
    }
}
