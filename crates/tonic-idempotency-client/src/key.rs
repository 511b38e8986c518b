//! The key of an operation: the caller's own, or a new one.

use std::{fmt, sync::Mutex};

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use tonic_idempotency_wire::headers;
use uuid::{NoContext, Timestamp, Uuid, fmt::Hyphenated};

/// The size of a block of memory that the texts of new keys share.
const PIECE: usize = 4096;

/// The key of one operation: put it into the extensions of a request to choose it, in place of a new UUID of version 7. A caller that
/// repeats an operation later, after a crash say, sends it with the same key.
///
/// ```
/// use tonic::Request;
/// use tonic_idempotency_client::OperationKey;
/// use uuid::Uuid;
///
/// let mut request = Request::new(());
/// request.extensions_mut().insert(OperationKey::from(Uuid::now_v7()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperationKey {
    text: HeaderValue,
}

impl OperationKey {
    /// Returns the key with this text, for servers that take such keys; `None` unless it consists of 1 to 255 visible ASCII
    /// characters without quotes, commas and semicolons.
    pub fn from_text(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';');
        if text.is_empty() || text.len() > headers::MAX_KEY || !text.bytes().all(is_plain) {
            return None;
        }
        Some(Self { text: HeaderValue::from_str(text).ok()? })
    }

    /// Returns the key with this text, whatever visible characters it has.
    pub(crate) fn from_header(text: &str) -> Option<Self> {
        Some(Self { text: HeaderValue::from_str(text).ok()? })
    }

    pub(crate) fn header_value(&self) -> HeaderValue {
        self.text.clone()
    }
}

impl From<Uuid> for OperationKey {
    fn from(key: Uuid) -> Self {
        let mut text = [0; Hyphenated::LENGTH];
        let text: &str = key.hyphenated().encode_lower(&mut text);
        Self { text: HeaderValue::from_str(text).expect("hexadecimal digits and hyphens") }
    }
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.to_str().unwrap_or_default())
    }
}

/// Makes keys. Their texts share blocks of memory, so that most need no allocation.
#[derive(Debug, Default)]
pub(crate) struct NewKeys {
    piece: Mutex<BytesMut>,
}

impl NewKeys {
    /// Returns the text of a new UUID of version 7.
    pub(crate) fn make(&self) -> HeaderValue {
        // Without the counter that the whole process shares: the keys of a simulated run depend only on its seed.
        HeaderValue::from_maybe_shared(self.text(Uuid::new_v7(Timestamp::now(NoContext))))
            .expect("hexadecimal digits and hyphens")
    }

    fn text(&self, key: Uuid) -> Bytes {
        let mut text = [0; Hyphenated::LENGTH];
        key.hyphenated().encode_lower(&mut text);
        let mut piece = self.piece.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if piece.capacity() < text.len() {
            *piece = BytesMut::with_capacity(PIECE);
        }
        piece.extend_from_slice(&text);
        piece.split().freeze()
    }
}
