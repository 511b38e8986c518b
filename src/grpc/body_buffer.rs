//! Collects a body.

use bytes::{Bytes, BytesMut};

use super::frame::{HEADER_LEN, Header};

/// The maximum ratio of the memory that is allocated, as the header of the message announces, to the bytes received.
const MAX_AHEAD: usize = 4;

/// A buffer for the chunks of a body. A single chunk, the usual case, is not copied; of several, each is copied once if they are as long as
/// their header says.
#[derive(Debug, Default)]
pub(super) struct BodyBuffer {
    first: Bytes,
    /// All chunks; empty while there is only the first.
    joined: BytesMut,
}

impl BodyBuffer {
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() {
            self.first = chunk;
            return;
        }
        let received = self.as_slice().len() + chunk.len();
        if self.joined.capacity() < received {
            let room = self.announced().clamp(received, received.saturating_mul(MAX_AHEAD));
            self.joined.reserve(room - self.joined.len());
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(&chunk);
    }

    /// Returns the size of the body according to the header of its message; zero if there is none yet.
    fn announced(&self) -> usize {
        match Header::of(self.as_slice()) {
            Ok(Some(header)) => HEADER_LEN.saturating_add(header.length),
            _ => 0,
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        if self.joined.is_empty() { &self.first } else { &self.joined }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(chunks: &[&'static [u8]]) -> Bytes {
        let mut joined = BodyBuffer::default();
        for (index, chunk) in chunks.iter().enumerate() {
            joined.push(Bytes::from_static(chunk));
            assert_eq!(joined.as_slice(), chunks[..=index].concat());
        }
        joined.into_bytes()
    }

    #[test]
    fn does_not_copy_a_single_chunk() {
        let chunk = b"abc".as_slice();
        for chunks in [vec![chunk], vec![b"", b"", chunk]] {
            assert_eq!(joined(&chunks).as_ptr(), chunk.as_ptr(), "{chunks:?}");
        }
    }

    #[test]
    fn allocates_once_for_chunks_that_are_as_long_as_their_header_says() {
        let body = [b"\0\0\x01\0\0".as_slice(), &[7; 1 << 16]].concat();
        let mut joined = BodyBuffer::default();
        let mut chunks = body.chunks(1 << 14);
        chunks.by_ref().take(2).for_each(|chunk| joined.push(Bytes::copy_from_slice(chunk)));
        let at = joined.as_slice().as_ptr();
        chunks.for_each(|chunk| joined.push(Bytes::copy_from_slice(chunk)));
        assert_eq!((joined.joined.capacity(), joined.as_slice()), (body.len(), &*body));
        assert_eq!(joined.into_bytes().as_ptr(), at);
    }

    #[test]
    fn allocates_little_for_a_header_that_says_too_much() {
        let mut joined = BodyBuffer::default();
        joined.push(Bytes::from_static(b"\0\xff\xff\xff\xff"));
        joined.push(Bytes::from_static(b"ab"));
        assert_eq!(joined.joined.capacity(), 7 * MAX_AHEAD);
    }

    #[test]
    fn joins_several_chunks_in_order() {
        assert_eq!(joined(&[b"a", b"", b"bc", b"d"]), b"abcd".as_slice());
        assert_eq!(joined(&[]), b"".as_slice());
    }
}
