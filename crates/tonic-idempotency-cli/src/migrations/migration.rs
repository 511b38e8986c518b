//! A migration that a folder should have.

/// A migration, without its version in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Migration {
    /// Letters, digits and `_`. A folder has one migration with this name.
    pub(super) name: String,
    pub(super) sql: String,
}
