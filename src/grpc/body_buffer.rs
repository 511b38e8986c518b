//! Collects a body.

use bytes::{Bytes, BytesMut};

/// A buffer for the chunks of a body. A single chunk, the usual case, is not copied.
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
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(&chunk);
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
    fn joins_several_chunks_in_order() {
        assert_eq!(joined(&[b"a", b"", b"bc", b"d"]), b"abcd".as_slice());
        assert_eq!(joined(&[]), b"".as_slice());
    }
}
