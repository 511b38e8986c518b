//! The field of a request that has its key: read and filled in, in the encoded message.

use bytes::{Buf as _, BufMut as _, BytesMut};
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint, skip_field};
use uuid::Uuid;

use crate::{
    ProcedureError,
    descriptor::{FieldDescriptor, FileDescriptorSet},
};

/// The field of a request that has its key: a text, or the 16 bytes of a UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyField {
    /// The numbers of the fields that lead to it. The last one is its own.
    path: Vec<u32>,
    is_text: bool,
}

impl KeyField {
    /// Finds the field at this path, such as `client.request_id`, in the message with this full name.
    pub(crate) fn resolve(
        procedure: &str,
        path: &str,
        descriptors: &FileDescriptorSet,
        message: &str,
    ) -> Result<Self, ProcedureError> {
        let missing = || ProcedureError::NoKeyField { procedure: procedure.to_owned(), path: path.to_owned() };
        let mut message = descriptors.message(message).ok_or_else(missing)?;
        let mut numbers = Vec::new();
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let field = message.field.iter().find(|field| field.name == name).ok_or_else(missing)?;
            if field.label == FieldDescriptor::REPEATED {
                return Err(missing());
            }
            numbers.push(u32::try_from(field.number).map_err(|_| missing())?);
            match (field.r#type, names.peek()) {
                (FieldDescriptor::STRING, None) => return Ok(Self { path: numbers, is_text: true }),
                (FieldDescriptor::BYTES, None) => return Ok(Self { path: numbers, is_text: false }),
                (FieldDescriptor::MESSAGE, Some(_)) => {
                    message = descriptors.message(&field.type_name).ok_or_else(missing)?;
                }
                _ => return Err(missing()),
            }
        }
        Err(missing())
    }

    /// Returns the key in an encoded message, as a text; `None` if the field is empty, or the message malformed.
    pub(crate) fn read(&self, message: &[u8]) -> Option<String> {
        let value = last(&self.path, message).ok()?.filter(|value| !value.is_empty())?;
        if self.is_text {
            return str::from_utf8(value).ok().map(str::to_owned);
        }
        Some(Uuid::from_slice(value).ok()?.to_string())
    }

    /// Appends the key to an encoded message. A decoder merges it into what precedes it. A key that is no UUID is not a key of a field
    /// of bytes, which stays empty.
    pub(crate) fn append(&self, message: &mut BytesMut, key: &str) {
        let mut field = match Uuid::try_parse(key) {
            _ if self.is_text => BytesMut::from(key),
            Ok(key) => BytesMut::from(&key.as_bytes()[..]),
            Err(_) => return,
        };
        for number in self.path.iter().rev() {
            let content = field.split();
            field.reserve(content.len() + 2 * encoded_len_varint(u64::MAX));
            encode_key(*number, WireType::LengthDelimited, &mut field);
            encode_varint(content.len() as u64, &mut field);
            field.put(content);
        }
        message.put(field);
    }
}

/// The message is malformed.
struct Malformed;

impl<E: std::error::Error> From<E> for Malformed {
    fn from(_: E) -> Self {
        Self
    }
}

/// Returns the last value of the field at this path, if the message has one.
fn last<'a>(path: &[u32], message: &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    let Some((number, rest)) = path.split_first() else { return Ok(None) };
    let (mut buffer, mut found) = (message, None);
    while buffer.has_remaining() {
        let (tag, wire_type) = decode_key(&mut buffer)?;
        if tag != *number || wire_type != WireType::LengthDelimited {
            skip_field(wire_type, tag, &mut buffer, prost::encoding::DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut buffer)?)?;
        let (value, after) = buffer.split_at_checked(length).ok_or(Malformed)?;
        buffer = after;
        found = if rest.is_empty() { Some(value) } else { last(rest, value)?.or(found) };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &[u32], is_text: bool) -> KeyField {
        KeyField { path: path.to_vec(), is_text }
    }

    #[test]
    fn is_read_as_it_was_written_in_a_message_or_a_submessage() {
        let key = Uuid::from_u128(7);
        for (path, is_text) in [(&[1][..], true), (&[3, 1], true), (&[2047], false), (&[3, 4, 5], false)] {
            let field = field(path, is_text);
            // A message with a field 2 before it.
            let mut message = BytesMut::from(&[0x10, 0x01][..]);
            assert_eq!(field.read(&message), None);
            field.append(&mut message, &key.to_string());
            assert_eq!(field.read(&message), Some(key.to_string()), "{path:?}");
        }
    }

    #[test]
    fn is_the_last_one_and_merged_in_submessages() {
        let field = field(&[3, 1], true);
        // 3 { 1: "a" } 3 { 1: "b" } 3 { 2: "c" }
        assert_eq!(field.read(b"\x1a\x03\x0a\x01a\x1a\x03\x0a\x01b\x1a\x03\x12\x01c"), Some("b".to_owned()));
    }

    #[test]
    fn is_none_in_a_malformed_message_or_if_it_is_empty() {
        for message in [&b"\x0a"[..], b"\x0a\x05a", b"\x0a\x00", b"\x0a\x01\xff", b""] {
            assert_eq!(field(&[1], true).read(message), None, "{message:?}");
        }
        assert_eq!(field(&[1], false).read(b"\x0a\x01a"), None);
    }
}
