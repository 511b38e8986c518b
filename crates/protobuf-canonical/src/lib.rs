//! The canonical encoding of a request message, and the request hash.
//!
//! ```
//! use prost_reflect::DescriptorPool;
//! use protobuf_canonical::Canonical;
//!
//! let duration = DescriptorPool::global().get_message_by_name("google.protobuf.Duration").unwrap();
//! let canonical = Canonical::new(&duration);
//! let [shuffled, in_order] = [[0x10, 0x07, 0x08, 0x05], [0x08, 0x05, 0x10, 0x07]]; // nanos before seconds, and after
//! assert_eq!(canonical.encode(&shuffled).unwrap(), in_order.as_slice());
//! assert_eq!(canonical.hash(&shuffled).unwrap(), canonical.hash(&in_order).unwrap());
//! ```
//!
//! The same message can be encoded in many ways: fields in any order, padded lengths, lists packed or not, maps in any
//! order. The canonical encoding is the output of protobuf-go's `MarshalOptions{Deterministic: true}` for the decoded
//! message. The Go interceptor hashes the same bytes, so a Go server and a Rust server can share one table:
//!
//! 1. The order is: extensions by field number; fields outside any oneof by field number; the set members of real
//!    oneofs, in the order in which the oneofs are declared; unknown fields in order of arrival, with a minimal tag and
//!    the rest verbatim.
//! 2. Scalars with implicit presence are omitted if they equal their default (`-0.0` does not equal it). The last
//!    value of a singular field wins, the pieces of a singular message are merged, and the last member of a oneof
//!    wins.
//! 3. The schema decides whether a repeated field is packed, not the sender. Varints, tags and lengths are minimal.
//! 4. Map entries are sorted by key: strings bytewise, integers by value, `false` before `true`. The last of equal keys
//!    wins. Key and value are both written.
//! 5. A field whose wire type does not match the schema is an unknown field. Inside a map entry, unknown fields are
//!    dropped.
//! 6. Enum values that are not declared are preserved. Numbers of 32 bits or fewer drop any excess bits. A signalling
//!    NaN of a `float` becomes a quiet one in maps and extensions. Strings of proto3 must be UTF-8.
//!
//! If the options of a field contain `features`, as in a file in an edition, these determine the field's presence and
//! the validation of its strings; the file's syntax does not.
//!
//! The encoding depends on the extensions in the descriptor pool: servers that share a table need the same extensions.
//!
//! The encoding also depends on the version of the schema. Two servers may rewrite the same bytes in different ways if
//! only one of them knows a field, or knows it as a member of a oneof or as a map. Servers with different versions
//! compare [`RequestHashes`].
//!
//! Almost every real request is canonical on arrival. One pass over the wire bytes, driven by the descriptor, checks
//! this without allocating, and the bytes are hashed in place. Other requests are rewritten: their fields, as spans of
//! the wire bytes, are sorted and written out; canonical map entries are copied.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `json` | `json`: protobuf's JSON, read and written by descriptors |
//! | `reencode` | `reencode`: other encodings of a message, for tests of whatever compares messages |
//!
//! # Costs
//!
//! A hostile message costs little more than another of its size: rewriting it takes memory of at most four times its
//! size, and time in proportion to its size. A message that would take more is
//! [refused](CanonicalErrorKind::TooCostly).

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(feature = "json")]
pub mod json;
#[cfg(feature = "reencode")]
pub mod reencode;

mod check;
mod depth;
mod entry;
mod error;
mod features;
mod field_path;
mod hash;
mod ignore_mask;
mod output;
mod raw;
mod reader;
mod rewrite;
mod run;
mod schema;
mod sort_key;
mod strip;
mod utf8;
mod valid;

use std::{borrow::Cow, fmt};

use prost_reflect::MessageDescriptor;

pub use self::{
    depth::MAX_DEPTH,
    error::{CanonicalError, CanonicalErrorKind},
    field_path::FieldPath,
    hash::{RequestHash, RequestHashes},
};
use self::{hash::Hasher, ignore_mask::IgnoreMask, schema::Schema};

/// Encodes the messages of one type canonically, and hashes them.
///
/// Create one for each message type and reuse it: [`new`](Self::new) compiles the descriptor.
///
/// ```
/// use prost_reflect::DescriptorPool;
/// use protobuf_canonical::Canonical;
///
/// let duration = DescriptorPool::global().get_message_by_name("google.protobuf.Duration").unwrap();
/// let canonical = Canonical::new(&duration);
///
/// // nanos (2) before seconds (1), and two values for seconds: the last one wins.
/// let shuffled = [0x10, 0x07, 0x08, 0x01, 0x08, 0x05];
/// let in_order = [0x08, 0x05, 0x10, 0x07];
/// assert_eq!(canonical.encode(&shuffled).unwrap(), in_order.as_slice());
/// assert_eq!(canonical.hash(&shuffled).unwrap(), canonical.hash(&in_order).unwrap());
/// ```
pub struct Canonical {
    message: MessageDescriptor,
    schema: Schema,
    ignored: IgnoreMask,
}

impl Canonical {
    /// Compiles the descriptor of a message, of all messages that it refers to, and of their extensions in its pool.
    pub fn new(message: &MessageDescriptor) -> Self {
        Self::ignoring(message, &[])
    }

    /// As [`new`](Self::new), for messages that are compared without the fields at these paths. A path is a list of
    /// field numbers that begins in this message; it may lead into the elements of lists and the values of maps.
    ///
    /// The canonical encoding and both hashes leave the fields out. The fields still have to be valid. Messages still
    /// differ if only one of them has set the message around an ignored field, or if their lists have different
    /// lengths.
    ///
    /// ```
    /// use prost_reflect::DescriptorPool;
    /// use protobuf_canonical::Canonical;
    ///
    /// let duration = DescriptorPool::global().get_message_by_name("google.protobuf.Duration").unwrap();
    /// let seconds = Canonical::ignoring(&duration, &[vec![2]]);
    ///
    /// let [first, second] = [[0x08, 0x05, 0x10, 0x07], [0x08, 0x05, 0x10, 0x06]];
    /// assert!(seconds.hashes(&first).unwrap().same_request(&seconds.hashes(&second).unwrap()));
    /// assert_eq!(seconds.encode(&first).unwrap(), &first[..2]);
    /// ```
    pub fn ignoring(message: &MessageDescriptor, paths: &[Vec<u32>]) -> Self {
        let ignored = IgnoreMask::new(paths);
        Self { message: message.clone(), schema: Schema::compile(message, &ignored), ignored }
    }

    /// Returns the canonical encoding of the message in `wire`, without the ignored fields; borrows `wire` if it is canonical
    /// already.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] if `wire` is not a valid encoding of a message of this type, or is
    /// [too costly](CanonicalErrorKind::TooCostly) to encode.
    pub fn encode<'a>(&self, wire: &'a [u8]) -> Result<Cow<'a, [u8]>, CanonicalError> {
        if check::is_canonical(&self.schema, wire)? {
            Ok(Cow::Borrowed(wire))
        } else {
            rewrite::rewrite(&self.schema, wire).map(|output| Cow::Owned(output.into_vec()))
        }
    }

    /// Returns the request hash: SHA-256 of the canonical encoding.
    ///
    /// # Errors
    ///
    /// The same as [`encode`](Self::encode).
    pub fn hash(&self, wire: &[u8]) -> Result<RequestHash, CanonicalError> {
        if check::is_canonical(&self.schema, wire)? { Ok(RequestHash::of(wire)) } else { self.rewritten(wire) }
    }

    /// Returns the request hash, and the hash of the message as it arrived if the two differ.
    ///
    /// # Errors
    ///
    /// The same as [`encode`](Self::encode).
    pub fn hashes(&self, wire: &[u8]) -> Result<RequestHashes, CanonicalError> {
        if check::is_canonical(&self.schema, wire)? {
            return Ok(RequestHash::of(wire).into());
        }
        let canonical = self.rewritten(wire)?;
        let as_arrived = match self.ignored.is_empty() {
            true => Some(RequestHash::of(wire)),
            false => strip::strip(&self.schema, wire)?.map(|stripped| RequestHash::of(&stripped)),
        };
        Ok(RequestHashes::new(canonical, as_arrived))
    }

    /// Returns the hashes of a message that arrived in JSON: [`Json`](json::Json) has decoded `json` into `wire`.
    ///
    /// The second hash, of the message as it arrived, covers `json` behind a prefix. No binary message begins with this
    /// prefix.
    ///
    /// # Errors
    ///
    /// The same as [`encode`](Self::encode).
    #[cfg(feature = "json")]
    pub fn hashes_of_json(&self, wire: &[u8], json: &[u8]) -> Result<RequestHashes, CanonicalError> {
        let canonical = self.hash(wire)?;
        let as_arrived = match self.ignored.is_empty() {
            true => Some(RequestHash::of_json(json)),
            false => str::from_utf8(json)
                .ok()
                .and_then(|json| json::strip::strip(&self.message, &self.ignored, json))
                .map(|stripped| RequestHash::of_json(stripped.as_bytes())),
        };
        Ok(RequestHashes::new(canonical, as_arrived))
    }

    fn rewritten(&self, wire: &[u8]) -> Result<RequestHash, CanonicalError> {
        let mut hash = Hasher::default();
        rewrite::rewrite(&self.schema, wire)?.segments().for_each(|segment| hash.update(segment));
        Ok(hash.finish())
    }
}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canonical").field("message", &self.message.full_name()).finish_non_exhaustive()
    }
}
