use std::{error, fmt};

/// A request message that cannot be hashed, because its bytes are no valid encoding of the message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanonicalError {
    kind: CanonicalErrorKind,
}

impl CanonicalError {
    pub(super) fn new(kind: CanonicalErrorKind) -> Self {
        Self { kind }
    }

    /// What is wrong with the bytes.
    pub fn kind(&self) -> CanonicalErrorKind {
        self.kind
    }
}

impl fmt::Display for CanonicalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            CanonicalErrorKind::GroupMismatch => "a group ends that did not begin, or begins and does not end",
            CanonicalErrorKind::InvalidFieldNumber => "a field number is out of range",
            CanonicalErrorKind::InvalidUtf8 => "a string is not valid UTF-8",
            CanonicalErrorKind::InvalidWireType => "a wire type does not exist",
            CanonicalErrorKind::TooDeep => "messages nest too deep",
            CanonicalErrorKind::Truncated => "the message ends in the middle of a field",
            CanonicalErrorKind::VarintOverflow => "a varint is longer than 64 bits",
        })
    }
}

impl error::Error for CanonicalError {}

// As wide as the lengths and numbers in whose place it stands in a `Result`: of a narrower one, the compiler writes a byte where
// it reads a word next, and the processor waits for that at every tag.
/// What is wrong with the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u64)]
pub enum CanonicalErrorKind {
    /// A group ends that did not begin, or begins and does not end.
    GroupMismatch,
    /// A field number is 0 or above 2²⁹ − 1.
    InvalidFieldNumber,
    /// A proto3 string is not valid UTF-8.
    InvalidUtf8,
    /// A wire type is 6 or 7.
    InvalidWireType,
    /// Messages nest deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
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
