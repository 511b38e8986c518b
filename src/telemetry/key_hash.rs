//! The hash of a key in spans.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use uuid::Uuid;

/// The bytes of a hash that are shown.
const SHOWN: usize = 16;

/// Returns the value of a span's field `key` for a key, 32 digits: the first half of the HMAC-SHA-256 of the key as it is stored
/// ([`KeyId`](crate::KeyId)). `secret` is that of
/// [`log_key_hashes_with`](crate::layer::IdempotencyLayerBuilder::log_key_hashes_with).
///
/// ```
/// use tonic_idempotency::{IdempotencyKey, policy::KeyFormat, telemetry::key_hash};
///
/// // The key of a support ticket.
/// let key = IdempotencyKey::new("order-17", KeyFormat::Any)?;
/// let hash = key_hash(b"a secret of 32 bytes, or of more", key.id().as_uuid());
/// assert_eq!(hash, "8f26807fcfb1cafaa99975751abebb52");
/// # Ok::<(), tonic_idempotency::rejection::InvalidKey>(())
/// ```
pub fn key_hash(secret: &[u8], key: &Uuid) -> String {
    let mut hash = match Hmac::<Sha256>::new_from_slice(secret) {
        Ok(hash) => hash,
        // An HMAC takes a secret of any length.
        Err(_) => return String::new(),
    };
    hash.update(key.as_bytes());
    let hash = hash.finalize().into_bytes();
    hash.iter().take(SHOWN).fold(String::with_capacity(2 * SHOWN), |mut text, byte| {
        // Writing to a String never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
