//! Sealed bytes, and their format.
//!
//! | bytes | are |
//! |---|---|
//! | 1 | zero: no protobuf message begins so |
//! | 1 | the suite: 1 is the one below |
//! | 1 | the length of the key's id |
//! | 1 to 255 | the key's id |
//! | 32 | the salt, random |
//! | 32 | the commitment to the key |
//! | the rest | the padded text, and the tag of 16 bytes |
//!
//! The suite is AES-256-GCM with a key of its own for each envelope: HKDF-SHA-256 (RFC 5869) of the key and the salt gives that key, and
//! the commitment. Since that key seals one text, the nonce is zero, and no number of envelopes wears a key out. The commitment is there
//! because GCM has none: a text may be made that opens with two keys. Associated data are all that comes before the text, and the context.

use aes_gcm::{
    Aes256Gcm, Nonce, Tag,
    aead::{AeadInOut as _, KeyInit as _},
};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{
    key::Key,
    padding::{pad, unpadded},
};

const MARK: u8 = 0;
const SUITE: u8 = 1;
const SALT: usize = 32;
const COMMITMENT: usize = 32;
const TAG: usize = 16;

/// The purpose of the derived keys, for HKDF.
const INFO: &[u8] = b"tonic-idempotency envelope 1";

/// Seals a text with this key. It opens only with the same context: parts that say where it belongs.
///
/// # Panics
///
/// The operating system has no random bytes.
pub fn seal(key: &Key, context: &[&[u8]], text: &[u8]) -> Vec<u8> {
    let mut salt = [0; SALT];
    getrandom::fill(&mut salt).expect("the operating system has random bytes");
    let derived = Derived::new(key, &salt);
    let id = key.id();
    let head = 3 + id.len() + SALT + COMMITMENT;
    // The padding is at most as long again, and rarely more than an eighth.
    let mut envelope = Vec::with_capacity(head + text.len() + text.len() / 8 + 128 + TAG);
    envelope.extend([MARK, SUITE, u8::try_from(id.len()).expect("an id of at most 255 bytes")]);
    for part in [id, &salt, derived.commitment(), text] {
        envelope.extend_from_slice(part);
    }
    pad(&mut envelope, head);
    let (before, padded) = envelope.split_at_mut(head);
    let tag = derived
        .cipher()
        .encrypt_inout_detached(&Nonce::default(), &associated(before, context), padded.into())
        .expect("a text shorter than 64 GiB");
    envelope.extend_from_slice(&tag);
    envelope
}

/// Opens an envelope with the key that it names. Returns the text.
///
/// # Errors
///
/// [`NotOpened`].
pub fn open(key: &Key, context: &[&[u8]], envelope: &[u8]) -> Result<Vec<u8>, NotOpened> {
    let Parts { id, salt, commitment, head, sealed } = Parts::of(envelope)?;
    let derived = Derived::new(key, salt);
    if id != key.id() || commitment != derived.commitment() {
        return Err(NotOpened::OtherKey);
    }
    let (padded, tag) = sealed.split_at_checked(sealed.len().saturating_sub(TAG)).ok_or(NotOpened::Malformed)?;
    let tag = Tag::try_from(tag).map_err(|_| NotOpened::Malformed)?;
    let mut text = padded.to_vec();
    derived
        .cipher()
        .decrypt_inout_detached(&Nonce::default(), &associated(head, context), text.as_mut_slice().into(), &tag)
        .map_err(|_| NotOpened::Tampered)?;
    let length = unpadded(&text).ok_or(NotOpened::Malformed)?;
    text.truncate(length);
    Ok(text)
}

/// Returns the id of the key that an envelope names; `None` if it is no envelope, or of a suite that this version does not know.
pub fn id_of(envelope: &[u8]) -> Option<&[u8]> {
    Parts::of(envelope).ok().map(|parts| parts.id)
}

/// Returns whether these bytes are an envelope, of whichever suite.
pub fn is_envelope(bytes: &[u8]) -> bool {
    bytes.first() == Some(&MARK)
}

/// The reason why an envelope does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotOpened {
    /// It is cut, or no envelope, or of a suite that this version does not know.
    #[error("it is cut, or no envelope of this version")]
    Malformed,
    /// It was sealed with another key.
    #[error("it was sealed with another key")]
    OtherKey,
    /// It was changed, or belongs elsewhere.
    #[error("it was changed, or belongs to another record")]
    Tampered,
}

/// The parts of an envelope.
struct Parts<'a> {
    id: &'a [u8],
    salt: &'a [u8],
    commitment: &'a [u8],
    /// All before the sealed text.
    head: &'a [u8],
    sealed: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(envelope: &'a [u8]) -> Result<Self, NotOpened> {
        let split = || {
            let [MARK, SUITE, id_length, rest @ ..] = envelope else { return None };
            let (id, rest) = rest.split_at_checked(usize::from(*id_length))?;
            let (salt, rest) = rest.split_at_checked(SALT)?;
            let (commitment, sealed) = rest.split_at_checked(COMMITMENT)?;
            let head = &envelope[..envelope.len() - sealed.len()];
            Some(Self { id, salt, commitment, head, sealed })
        };
        split().ok_or(NotOpened::Malformed)
    }
}

/// The keys of one envelope.
struct Derived(Zeroizing<[u8; 32 + COMMITMENT]>);

impl Derived {
    fn new(key: &Key, salt: &[u8]) -> Self {
        let mut bytes = Zeroizing::new([0; 32 + COMMITMENT]);
        Hkdf::<Sha256>::new(Some(salt), key.secret())
            .expand(INFO, bytes.as_mut_slice())
            .expect("HKDF-SHA-256 gives up to 8,160 bytes");
        Self(bytes)
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new_from_slice(&self.0[..32]).expect("a key of 32 bytes")
    }

    fn commitment(&self) -> &[u8] {
        &self.0[32..]
    }
}

/// Joins the head and the context, each part with its length, so that no two contexts are joined alike.
fn associated(head: &[u8], context: &[&[u8]]) -> Vec<u8> {
    let mut joined = head.to_vec();
    for part in context {
        joined.extend((part.len() as u64).to_be_bytes());
        joined.extend_from_slice(part);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, byte: u8) -> Key {
        Key::new(id, &[byte; 32]).expect("a key")
    }

    #[test]
    fn open_with_their_key_and_context_and_are_never_the_same_twice() {
        let (key, context) = (key("one", 1), [&b"owner"[..], b"procedure"]);
        for text in [&b""[..], b"secret", &[0; 127], &[0x80; 4096]] {
            let [one, other] = [(); 2].map(|()| seal(&key, &context, text));
            assert_ne!(one, other);
            assert_eq!(one.len(), other.len());
            assert!(is_envelope(&one) && id_of(&one) == Some(b"one"));
            assert_eq!(open(&key, &context, &one).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_changed_or_cut_envelope_does_not_open() {
        let (key, context) = (key("one", 1), [&b"owner"[..]]);
        let envelope = seal(&key, &context, b"secret");
        for at in 0..envelope.len() {
            let mut changed = envelope.clone();
            changed[at] ^= 1;
            assert!(open(&key, &context, &changed).is_err(), "byte {at}");
            assert!(open(&key, &context, &envelope[..at]).is_err(), "cut at {at}");
        }
        assert!(open(&key, &context, &[&envelope[..], &[0]].concat()).is_err());
    }

    #[test]
    fn an_envelope_belongs_to_one_key_and_one_context() {
        let envelope = seal(&key("one", 1), &[b"ab", b"c"], b"secret");
        assert_eq!(open(&key("one", 2), &[b"ab", b"c"], &envelope), Err(NotOpened::OtherKey));
        assert_eq!(open(&key("two", 1), &[b"ab", b"c"], &envelope), Err(NotOpened::OtherKey));
        for other in [&[&b"a"[..], b"bc"][..], &[b"abc"], &[b"ab", b"c", b""], &[]] {
            assert_eq!(open(&key("one", 1), other, &envelope), Err(NotOpened::Tampered));
        }
    }

    /// The format is fixed: records outlive a version of this program. Made with the package `cryptography` of Python.
    #[test]
    fn an_envelope_of_version_1_opens() {
        let digits = concat!(
            "000107323032362d31316465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80818283eb60d3ab8cd83477129f57da82e473d48e",
            "c40539f4de4a66aac70b53e7025f92d3a1a70dbe0985d5d74e4fd981b777bcc1955c2499afab9bf4366628e7c9ef8f9cb305ec35ffe3b30821aba5",
            "d5aac67a0722843a658b8b8e002de83803129ce885ac6a694762a12b8c2220156d444be78ed2f470aef9d09fb8823ba882ead294b839f2766d70d3",
            "5644449321a610a117d7974415aa37bc94e6bbb3d64f637f02ee4e627d9410511c6b707ce0e29484f6",
        );
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
        let envelope: Vec<_> = (0..digits.len()).step_by(2).map(byte).collect();
        let key = Key::new("2026-11", &std::array::from_fn::<_, 32, _>(|at| at as u8)).expect("a key");
        let opened = open(&key, &[b"owner", b"/shop.v1.Orders/Create"], &envelope);
        assert_eq!(opened.as_deref(), Ok(&b"the first response"[..]));
    }
}
