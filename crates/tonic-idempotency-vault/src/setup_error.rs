//! The error of keys that cannot be set up.

use vaultrs::error::ClientError;

/// The reason why [`VaultKeys`](crate::VaultKeys) cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultSetupError {
    /// The client cannot be made of its settings, such as certificates.
    #[error("no client of Vault can be made of these settings")]
    Client(#[from] ClientError),
    /// The mount is not a path of letters, digits, and `-`, `.`, `_`, such as `teams/orders/transit`.
    #[error("the mount is not a path such as transit or teams/orders/transit")]
    Mount,
    /// The prefix is not 1 to 64 letters, digits, and `-`, `.`, `_`, of which the first is a letter or a digit.
    #[error(
        "the prefix of keys in Vault has 1 to 64 letters, digits, hyphens and dots, and begins with a letter or a digit"
    )]
    Prefix,
    /// The token is empty, or has characters that no token has, such as the end of a line.
    #[error("the token of Vault is empty, or has characters that no token has, such as the end of a line")]
    Token,
}
