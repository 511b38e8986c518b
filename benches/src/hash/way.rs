//! The ways to hash a message.

/// A way to hash a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// This library's hash.
    Canonical,
    /// SHA-256 of the bytes themselves, which differs between encodings.
    Plain,
    /// Decodes into a `DynamicMessage`, and encodes again with sorted maps.
    Dynamic,
}
