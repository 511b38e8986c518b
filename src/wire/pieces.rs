use bytes::{Bytes, BytesMut};

/// Bytes that come in pieces. Mostly there is one, and nothing to copy.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    first: Bytes,
    /// All of them; empty while the first is all there is.
    joined: BytesMut,
}

impl Pieces {
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
