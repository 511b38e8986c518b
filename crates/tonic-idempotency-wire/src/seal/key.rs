//! A key that seals, with its id.

use std::{fmt, sync::Arc};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The size of a key, in bytes.
const BYTES: usize = 32;

/// The size of the longest id, in bytes: an envelope has the length in one byte.
const LONGEST_ID: usize = 255;

/// A key of 32 bytes, and the id by which sealed bytes name it. Clones share the bytes, which are overwritten when the last one is dropped;
/// `Debug` does not show them.
///
/// Make the bytes with a generator of random bytes, such as `openssl rand -base64 32`: a password is no key. The id is not secret, and is
/// written in front of everything that the key seals.
#[derive(Clone)]
pub struct Key {
    id: Arc<[u8]>,
    secret: Arc<Zeroizing<[u8; BYTES]>>,
}

impl Key {
    /// Makes a key of these bytes, with an id of 1 to 255 bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidKey::Id`] or [`InvalidKey::Length`].
    pub fn new(id: impl AsRef<[u8]>, secret: &[u8]) -> Result<Self, InvalidKey> {
        let id = id.as_ref();
        if id.is_empty() || id.len() > LONGEST_ID {
            return Err(InvalidKey::Id);
        }
        let mut bytes = Zeroizing::new([0; BYTES]);
        if secret.len() != BYTES {
            return Err(InvalidKey::Length { bytes: secret.len() });
        }
        bytes.copy_from_slice(secret);
        Ok(Self { id: id.into(), secret: Arc::new(bytes) })
    }

    /// Makes a key of bytes in base64, with or without padding. White space around the text does not count.
    ///
    /// ```
    /// # use tonic_idempotency_wire::seal::{InvalidKey, Key};
    /// let key = Key::from_base64("2026-11", "TXGiEzFQ1mRBDdR0xt6pVZSP0mg4VSVQC4WRk7Fi1x8=")?;
    /// assert_eq!(key.id(), b"2026-11");
    /// assert_eq!(format!("{key:?}"), "Key { id: \"2026-11\", .. }");
    /// assert!(Key::from_base64("2026-11", "c2hvcnQ=").is_err());
    /// # Ok::<_, InvalidKey>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidKey`]: not base64, not 32 bytes, or an id that is empty or too long.
    pub fn from_base64(id: impl AsRef<[u8]>, text: &str) -> Result<Self, InvalidKey> {
        let text = text.trim();
        let engine = if text.ends_with('=') { STANDARD } else { STANDARD_NO_PAD };
        let secret = Zeroizing::new(engine.decode(text).map_err(|_| InvalidKey::Base64)?);
        Self::new(id, &secret)
    }

    /// Returns the id.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Returns the HMAC-SHA-256 of these parts, one after another: the same for equal parts only if their lengths do not vary.
    #[doc(hidden)]
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret()).expect("HMAC takes keys of any length");
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    pub(super) fn secret(&self) -> &[u8; BYTES] {
        &self.secret
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id.escape_ascii().to_string()).finish_non_exhaustive()
    }
}

/// The reason why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The text is not base64.
    #[error("the key is not base64")]
    Base64,
    /// The id is empty, or too long.
    #[error("the id of a key has 1 to 255 bytes")]
    Id,
    /// The key has another length.
    #[error("a key has 32 bytes, and this one {bytes}")]
    Length {
        /// How many bytes it has.
        bytes: usize,
    },
}
