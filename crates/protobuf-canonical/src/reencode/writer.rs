//! The writer of a message, with padding.

use prost::encoding::encode_varint;

use super::{
    choices::{Choices, Variation},
    message::{Content, Delimited, Message, Varint},
    variations::Padding,
};
use crate::reader::MAX_VARINT_LEN;

/// The bytes of a tag or a length that each decoder takes.
const MAX_PORTABLE_LEN: usize = 5;

/// Returns the encoded message.
pub(super) fn write(message: &Message<'_>, choices: &mut Choices) -> Vec<u8> {
    let (of_framing, of_values) = match choices.padding() {
        Padding::None => (0, 0),
        Padding::Portable => (MAX_PORTABLE_LEN, MAX_VARINT_LEN),
        Padding::Longest => (MAX_VARINT_LEN, MAX_VARINT_LEN),
    };
    let mut out = Vec::new();
    Writer { choices, of_framing, of_values }.message(message, &mut out);
    out
}

struct Writer<'a> {
    choices: &'a mut Choices,
    /// The bytes to which a tag or a length is padded at most.
    of_framing: usize,
    /// The same of a value.
    of_values: usize,
}

impl Writer<'_> {
    fn message(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        for record in &message.records {
            self.varint(record.tag, self.of_framing, out);
            self.content(&record.content, out);
        }
    }

    fn content(&mut self, content: &Content<'_>, out: &mut Vec<u8>) {
        match content {
            Content::Bytes(Delimited { width, content }) => self.delimited(*width, content, out),
            Content::Group { message, end } => {
                self.message(message, out);
                self.varint(*end, self.of_framing, out);
            }
            Content::Message(Delimited { width, content }) => {
                let mut inner = Vec::new();
                self.message(content, &mut inner);
                self.delimited(*width, &inner, out);
            }
            Content::Packed(Delimited { width, content }) => {
                let mut inner = Vec::new();
                content.iter().for_each(|element| self.content(element, &mut inner));
                self.delimited(*width, &inner, out);
            }
            Content::Varint(varint) => self.varint(*varint, self.of_values, out),
            Content::Verbatim(bytes) => out.extend_from_slice(bytes),
        }
    }

    fn delimited(&mut self, width: usize, content: &[u8], out: &mut Vec<u8>) {
        self.varint(Varint { value: content.len() as u64, width }, self.of_framing, out);
        out.extend_from_slice(content);
    }

    /// Writes a varint, padded to at most this many bytes if it is padded here.
    fn varint(&mut self, varint: Varint, max: usize, out: &mut Vec<u8>) {
        let start = out.len();
        encode_varint(varint.value, out);
        let mut len = varint.width.max(out.len() - start);
        if len < max && self.choices.happens(Variation::Padding) {
            len = self.choices.rng.usize(len + 1..=max);
        }
        pad(out, start + len);
    }
}

/// Pads the varint at the end of `out`, which has this length then.
fn pad(out: &mut Vec<u8>, len: usize) {
    if out.len() == len {
        return;
    }
    if let Some(last) = out.last_mut() {
        *last |= 0x80;
    }
    out.resize(len - 1, 0x80);
    out.push(0);
}
