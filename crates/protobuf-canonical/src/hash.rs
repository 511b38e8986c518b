//! The hashes by which requests are compared.

use std::array::TryFromSliceError;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// SHA-256 of an encoding of a request message. Comparisons take constant time.
#[derive(Clone, Copy, Debug)]
pub struct RequestHash([u8; 32]);

impl RequestHash {
    pub(crate) fn of(encoding: &[u8]) -> Self {
        Self(Sha256::digest(encoding).into())
    }

    /// Hashes a message in JSON.
    #[cfg(feature = "json")]
    pub(crate) fn of_json(json: &[u8]) -> Self {
        // Begins like a field with the number 0, which no field has: the bytes are no message in binary, whatever the JSON is.
        const PREFIX: &[u8] = b"\0json\0";
        let mut hash = Hasher::default();
        hash.update(PREFIX);
        hash.update(json);
        hash.finish()
    }

    /// Returns the bytes of the hash, as stored in the table.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for RequestHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for RequestHash {
    type Error = TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<Self, TryFromSliceError> {
        bytes.try_into().map(Self)
    }
}

impl ConstantTimeEq for RequestHash {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl PartialEq for RequestHash {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for RequestHash {}

/// The hashes of one request. Two servers can compare them even if they know different versions of its schema.
///
/// The canonical encoding depends on the schema. If a server knows a field, a oneof or a map that another does not, the
/// two may rewrite the same bytes into different ones. So the hash of the message as it arrived is kept as well, if it
/// differs. [`same_request`](Self::same_request) compares each hash of the one request with each of the other: a
/// retry with the same bytes is recognised by any server, and another encoding by a server with the same schema.
///
/// Two requests that are recognised as the same are the same message to at least one of the two servers: equal bytes are one
/// message under any schema, and a canonical encoding is a message as it may arrive.
///
/// ```
/// use prost_reflect::DescriptorPool;
/// use protobuf_canonical::Canonical;
///
/// let [old, new] = ["google.protobuf.Empty", "google.protobuf.Duration"]
///     .map(|name| Canonical::new(&DescriptorPool::global().get_message_by_name(name).unwrap()));
///
/// // nanos (2) before seconds (1): to a server without these fields, they are unknown fields in order of arrival.
/// let message = [0x10, 0x07, 0x08, 0x05];
/// let (old, new) = (old.hashes(&message).unwrap(), new.hashes(&message).unwrap());
/// assert_ne!(old.canonical(), new.canonical());
/// assert!(new.same_request(&old));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHashes {
    canonical: RequestHash,
    /// In a box: most messages arrive in canonical form, and many calls may be in flight.
    as_arrived: Option<Box<RequestHash>>,
}

impl RequestHashes {
    /// Combines the hash of the canonical encoding with that of the message as it arrived; `None` if the message arrived
    /// in canonical form, or if that is not known.
    pub fn new(canonical: RequestHash, as_arrived: Option<RequestHash>) -> Self {
        Self { canonical, as_arrived: as_arrived.filter(|as_arrived| *as_arrived != canonical).map(Box::new) }
    }

    /// Returns the hash of the canonical encoding.
    pub fn canonical(&self) -> &RequestHash {
        &self.canonical
    }

    /// Returns the hash of the message as it arrived; `None` if it is the canonical one, or not known.
    pub fn as_arrived(&self) -> Option<&RequestHash> {
        self.as_arrived.as_deref()
    }

    /// Returns whether any hash of this request equals any of the other.
    pub fn same_request(&self, other: &Self) -> bool {
        let pairs = self.iter().flat_map(|ours| other.iter().map(move |theirs| (ours, theirs)));
        pairs.fold(Choice::from(0), |same, (ours, theirs)| same | ours.ct_eq(theirs)).into()
    }

    fn iter(&self) -> impl Iterator<Item = &RequestHash> {
        [&self.canonical].into_iter().chain(self.as_arrived())
    }
}

impl From<RequestHash> for RequestHashes {
    /// Makes the hashes of a message that arrived in canonical form.
    fn from(canonical: RequestHash) -> Self {
        Self { canonical, as_arrived: None }
    }
}

/// Hashes an encoding in parts.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    pub(crate) fn finish(self) -> RequestHash {
        RequestHash(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(canonical: u8, as_arrived: Option<u8>) -> RequestHashes {
        RequestHashes::new([canonical; 32].into(), as_arrived.map(|byte| [byte; 32].into()))
    }

    #[test]
    fn full_matrix() {
        for (ours, theirs, same) in [
            (hashes(1, None), hashes(1, None), true),
            (hashes(1, None), hashes(2, None), false),
            (hashes(1, Some(2)), hashes(1, None), true),
            (hashes(1, Some(2)), hashes(2, None), true),
            (hashes(1, Some(2)), hashes(3, None), false),
            (hashes(1, Some(2)), hashes(1, Some(3)), true),
            (hashes(1, Some(2)), hashes(3, Some(2)), true),
            (hashes(1, Some(2)), hashes(2, Some(3)), true),
            (hashes(1, Some(2)), hashes(3, Some(1)), true),
            (hashes(1, Some(2)), hashes(3, Some(4)), false),
        ] {
            assert_eq!(ours.same_request(&theirs), same, "{ours:?} {theirs:?}");
            assert_eq!(theirs.same_request(&ours), same, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn a_hash_that_is_the_canonical_one_is_kept_once() {
        assert_eq!(hashes(1, Some(1)).as_arrived(), None);
    }
}
