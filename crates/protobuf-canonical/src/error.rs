//! The error of the canonical encoding.

use std::{error, fmt};

/// A message without a canonical encoding: its bytes are not a valid encoding of the message type, or
/// [too costly](CanonicalErrorKind::TooCostly).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanonicalError {
    kind: CanonicalErrorKind,
}

impl CanonicalError {
    pub(super) fn new(kind: CanonicalErrorKind) -> Self {
        Self { kind }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> CanonicalErrorKind {
        self.kind
    }
}

impl fmt::Display for CanonicalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            CanonicalErrorKind::GroupMismatch => "mismatched start-group and end-group tags",
            CanonicalErrorKind::InvalidFieldNumber => "invalid field number",
            CanonicalErrorKind::InvalidUtf8 => "a string field contains invalid UTF-8",
            CanonicalErrorKind::InvalidWireType => "invalid wire type",
            CanonicalErrorKind::TooCostly => "would cost too much memory or time to be put into canonical order",
            CanonicalErrorKind::TooDeep => "nested more than 100 levels deep",
            CanonicalErrorKind::Truncated => "unexpected end of the message within a field",
            CanonicalErrorKind::VarintOverflow => "a varint overflows 64 bits",
        })
    }
}

impl error::Error for CanonicalError {}

// 64 bits wide, like the lengths and numbers that share a `Result` with it. For a narrower enum the compiler writes one
// byte and then reads a whole word from the same place, which stalls the processor at every tag.
/// The kind of a [`CanonicalError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u64)]
pub enum CanonicalErrorKind {
    /// A group has a start tag without an end tag, or an end tag without a start tag.
    GroupMismatch,
    /// A field number is 0 or above 2²⁹ − 1.
    InvalidFieldNumber,
    /// A string of proto3, or of an edition, is not valid UTF-8.
    InvalidUtf8,
    /// A wire type is 6 or 7.
    InvalidWireType,
    /// The message is valid, and not canonical, and to encode it canonically would cost too much memory or time. Only
    /// messages made for that purpose are: one that is larger than 2 GiB, whose canonical encoding would be more than
    /// twice its size, whose fields alternate more often than once in 8 bytes, or whose maps have more than one entry for
    /// each 8 bytes. A message of less than 64 KiB never is.
    TooCostly,
    /// Messages or groups nest deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    TooDeep,
    /// The bytes end in the middle of a field.
    Truncated,
    /// A varint has more than 64 bits.
    VarintOverflow,
}

impl From<CanonicalErrorKind> for CanonicalError {
    fn from(kind: CanonicalErrorKind) -> Self {
        Self::new(kind)
    }
}
