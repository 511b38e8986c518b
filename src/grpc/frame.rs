//! The length-prefixed message of gRPC over HTTP/2: a flag, a length in four bytes, and the message.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// The size of the header of a message, in bytes.
pub(crate) const HEADER_LEN: usize = 5;

const UNCOMPRESSED: u8 = 0;
const COMPRESSED: u8 = 1;

/// The header of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    compressed: bool,
    /// The size of the message according to its header, in bytes.
    pub(super) length: usize,
}

impl Header {
    /// Parses the header at the start of a body; `None` if the body is too short.
    pub(super) fn of(body: &[u8]) -> Result<Option<Self>, WireError> {
        let Some((&[flag, length @ ..], _)) = body.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let compressed = match flag {
            UNCOMPRESSED => false,
            COMPRESSED => true,
            _ => return Err(WireError::UnknownFlag),
        };
        Ok(Some(Self { compressed, length: u32::from_be_bytes(length) as usize }))
    }

    /// Returns whether a body of this size also contains the header of a second message.
    pub(super) fn is_followed(&self, body: usize) -> bool {
        body >= self.length.saturating_add(2 * HEADER_LEN)
    }
}

/// The one message of a unary body.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(super) compressed: bool,
    pub(super) message: Bytes,
}

impl Frame {
    /// Decodes a body, which has to contain exactly one message.
    pub(super) fn decode(mut body: Bytes) -> Result<Self, WireError> {
        let Some(Header { compressed, length }) = Header::of(&body)? else {
            return Err(if body.is_empty() { WireError::NoMessage } else { WireError::Truncated });
        };
        let mut message = body.split_off(HEADER_LEN);
        if message.len() < length {
            return Err(WireError::Truncated);
        }
        let rest = message.split_off(length);
        match Header::of(&rest)? {
            Some(_) => Err(WireError::SecondMessage),
            None if rest.is_empty() => Ok(Self { compressed, message }),
            None => Err(WireError::Truncated),
        }
    }

    /// Encodes a body with one uncompressed message.
    pub(crate) fn encode(message: &[u8]) -> Result<Bytes, WireError> {
        Self::put(UNCOMPRESSED, message)
    }

    /// Encodes a body with one compressed message.
    pub(super) fn encode_compressed(message: &[u8]) -> Result<Bytes, WireError> {
        Self::put(COMPRESSED, message)
    }

    fn put(flag: u8, message: &[u8]) -> Result<Bytes, WireError> {
        let length = u32::try_from(message.len()).map_err(|_| WireError::TooLarge)?;
        let mut body = BytesMut::with_capacity(HEADER_LEN + message.len());
        body.put_u8(flag);
        body.put_u32(length);
        body.put_slice(message);
        Ok(body.freeze())
    }
}

/// A body that is not one gRPC message, or a stored part of a response that cannot be decoded.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum WireError {
    #[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(dead_code))]
    #[error("the message cannot be decompressed")]
    Compression,
    #[error("the stored error cannot be decoded")]
    NoError,
    #[error("no message, but exactly one is required (cardinality violation)")]
    NoMessage,
    #[error("the stored metadata cannot be decoded")]
    NoMetadata,
    #[error("the compressed flag is set, but grpc-encoding is missing or identity")]
    NotCompressed,
    #[error("more than one message (cardinality violation)")]
    SecondMessage,
    #[error("the message is too large")]
    TooLarge,
    #[error("unexpected end of the body within a message")]
    Truncated,
    #[error("invalid compression flag (valid flags are 0 and 1)")]
    UnknownFlag,
    #[error("the grpc-encoding is not supported")]
    UnsupportedCompression,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_it_encoded() {
        for message in [b"".as_slice(), b"a", &[7; 70_000]] {
            let frame = Frame::decode(Frame::encode(message).expect("it fits")).expect("a frame");
            assert!(!frame.compressed);
            assert_eq!(frame.message, message);
            let frame = Frame::decode(Frame::encode_compressed(message).expect("it fits")).expect("a frame");
            assert!(frame.compressed);
        }
    }

    #[test]
    fn does_not_decode_a_body_that_is_not_one_message() {
        for (body, error) in [
            (b"".as_slice(), WireError::NoMessage),
            (b"\0\0\0\0", WireError::Truncated),
            (b"\0\0\0\0\x02a", WireError::Truncated),
            (b"\0\xff\xff\xff\xffa", WireError::Truncated),
            (b"\0\0\0\0\x01ab", WireError::Truncated),
            (b"\0\0\0\0\x01a\0\0\0\0\0", WireError::SecondMessage),
            (b"\0\0\0\0\x01a\0\0\0\0\x09a", WireError::SecondMessage),
            (b"\0\0\0\0\x01a\x02\0\0\0\0", WireError::UnknownFlag),
            (b"\x02\0\0\0\0", WireError::UnknownFlag),
        ] {
            assert_eq!(Frame::decode(Bytes::from_static(body)).err(), Some(error), "{body:?}");
        }
    }
}
