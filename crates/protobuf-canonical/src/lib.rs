//! The canonical encoding of a request message, and the request hash.
//!
//! The same message can be encoded in many ways: fields in any order, lengths padded, lists packed or not, maps in any
//! order. The canonical encoding is the one that protobuf-go's `MarshalOptions{Deterministic: true}` gives for the message
//! once decoded, so that a Go server and a Rust server can share one table (what the Go interceptor does):
//!
//! 1. extensions by field number; then fields outside any oneof by field number; then the set members of real oneofs in
//!    the order in which the oneofs are declared; then unknown fields in order of arrival, the tag minimal and the rest
//!    verbatim;
//! 2. scalars with implicit presence equal to their default are left out (`-0.0` is not the default); of a singular field
//!    the last value wins; singular messages given in pieces are merged; of a oneof the last member wins;
//! 3. repeated fields are packed or not as the schema says, however they arrived; varints, tags and lengths are minimal;
//! 4. map entries are sorted by key (strings bytewise, integers by value, `false` before `true`), the last of equal keys
//!    wins, key and value are both written;
//! 5. a field whose wire type does not fit the schema is an unknown field; inside a map entry, unknown fields are dropped;
//! 6. enums keep values that they do not declare; numbers of 32 bits or fewer drop the bits that they do not have; a
//!    signalling NaN of a `float` becomes a quiet one in maps and extensions; strings of proto3 have to be UTF-8.
//!
//! The form depends on which extensions the descriptor pool knows: servers that share a table have to know the same.
//!
//! Almost every real request arrives in this form already. One pass over the wire bytes, driven by the descriptor, proves
//! it without allocating, and the bytes are hashed where they lie; only the others are rewritten: their fields, as spans of
//! the wire bytes, are put in order and written out, the entries of maps copied where they are canonical by themselves.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(feature = "json")]
pub mod json;

mod check;
mod error;
mod reader;
mod rewrite;
mod schema;
mod sort_key;
mod utf8;

use std::{borrow::Cow, fmt};

use prost_reflect::MessageDescriptor;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use self::error::{CanonicalError, CanonicalErrorKind};
use self::schema::Schema;

/// How deep messages and groups may nest, the outermost one not counted: 100, as deep as prost decodes.
pub const MAX_DEPTH: u32 = 100;

/// Encodes the messages of one type canonically, and hashes them.
///
/// Made once for each message type: it compiles the descriptor.
///
/// ```
/// use prost_reflect::DescriptorPool;
/// use protobuf_canonical::Canonical;
///
/// let duration = DescriptorPool::global().get_message_by_name("google.protobuf.Duration").unwrap();
/// let canonical = Canonical::new(&duration);
///
/// // nanos (2) before seconds (1), and seconds given twice: the last one wins.
/// let shuffled = [0x10, 0x07, 0x08, 0x01, 0x08, 0x05];
/// let in_order = [0x08, 0x05, 0x10, 0x07];
/// assert_eq!(canonical.encode(&shuffled).unwrap(), in_order.as_slice());
/// assert_eq!(canonical.hash(&shuffled).unwrap(), canonical.hash(&in_order).unwrap());
/// ```
pub struct Canonical {
    name: String,
    schema: Schema,
}

impl Canonical {
    /// Compiles the descriptor of a message, with all that it reaches and the extensions that its pool knows.
    pub fn new(message: &MessageDescriptor) -> Self {
        Self { name: message.full_name().to_owned(), schema: Schema::compile(message) }
    }

    /// The canonical encoding of the message that `wire` encodes: `wire` itself where it is canonical already.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] where `wire` is not a valid encoding of such a message.
    pub fn encode<'a>(&self, wire: &'a [u8]) -> Result<Cow<'a, [u8]>, CanonicalError> {
        if check::is_canonical(&self.schema, wire)? {
            Ok(Cow::Borrowed(wire))
        } else {
            rewrite::rewrite(&self.schema, wire).map(Cow::Owned)
        }
    }

    /// The request hash: SHA-256 of the canonical encoding.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn hash(&self, wire: &[u8]) -> Result<RequestHash, CanonicalError> {
        let canonical = self.encode(wire)?;
        Ok(RequestHash(Sha256::digest(&canonical).into()))
    }
}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canonical").field("message", &self.name).finish_non_exhaustive()
    }
}

/// SHA-256 of the canonical encoding of a request message.
///
/// Compared in constant time.
#[derive(Clone, Copy, Debug)]
pub struct RequestHash([u8; 32]);

impl RequestHash {
    /// The hash as it is stored.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether this is the hash that was stored.
    pub fn matches(&self, stored: &[u8]) -> bool {
        self.0.as_slice().ct_eq(stored).into()
    }
}

impl From<[u8; 32]> for RequestHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl PartialEq for RequestHash {
    fn eq(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for RequestHash {}
