use bytes::{Bytes, BytesMut};

/// Bytes that come in pieces. Mostly there is one, and nothing to copy.
#[derive(Debug, Default)]
pub(super) struct BodyBuffer {
    first: Bytes,
    /// All of them; empty while the first is all there is.
    joined: BytesMut,
}

impl BodyBuffer {
    pub(super) fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(&piece);
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

    fn joined(pieces: &[&'static [u8]]) -> Bytes {
        let mut joined = BodyBuffer::default();
        for (index, piece) in pieces.iter().enumerate() {
            joined.push(Bytes::from_static(piece));
            assert_eq!(joined.as_slice(), pieces[..=index].concat());
        }
        joined.into_bytes()
    }

    #[test]
    fn one_piece_is_not_copied() {
        let piece = b"abc".as_slice();
        for pieces in [vec![piece], vec![b"", b"", piece]] {
            assert_eq!(joined(&pieces).as_ptr(), piece.as_ptr(), "{pieces:?}");
        }
    }

    #[test]
    fn several_are_joined_in_their_order() {
        assert_eq!(joined(&[b"a", b"", b"bc", b"d"]), b"abcd".as_slice());
        assert_eq!(joined(&[]), b"".as_slice());
    }
}
