//! The reasons why a key is refused.

use thiserror::Error;
use tonic_idempotency_wire::headers;

/// The reason why a header, or a field of a message, is not a valid key.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The header is empty.
    #[error("the idempotency key is empty; send a key, or leave it out")]
    Empty,
    /// The key is a UUID of version 7 whose time is more than five minutes ahead, and the policy is to refuse expired keys.
    #[error(
        "the time in the idempotency key is ahead of the server's by more than five minutes, and the call was not run; set the \
         client's clock"
    )]
    FromTheFuture,
    /// The header and the field of the message that has the key are different keys.
    #[error(
        "the idempotency-key header and the key in the message differ; send the same key in both, or one of them only"
    )]
    Mismatch,
    /// The header begins with a double quote, and is not a string as RFC 8941 defines it.
    #[error(
        "the idempotency key begins with a double quote and is not a string; end it with a double quote, and write a \
         double quote or a backslash inside of it after a backslash"
    )]
    NotAString,
    /// The key is not a UUID.
    #[error("the idempotency key is not a UUID; send a UUID")]
    NotAUuid,
    /// The header is not in double quotes, and has a character that only a key in double quotes may have.
    #[error("the idempotency key has a double quote or a semicolon; put it in double quotes")]
    NotQuoted,
    /// The field of the message does not have the size of a UUID.
    #[error("the idempotency key does not have the size of a UUID; send the 16 bytes of a UUID")]
    NotUuidBytes,
    /// The key has a character that is not a visible ASCII character.
    #[error(
        "the idempotency key has a space, a control character or a character beyond ASCII; send letters, digits and \
         punctuation of ASCII"
    )]
    NotVisible,
    /// The header is repeated with different values.
    #[error(
        "the idempotency-key header is repeated with different values; send it once, and put a key with a comma in \
         double quotes"
    )]
    Repeated,
    /// The key is longer than [`IdempotencyKey::MAX_LEN`](super::IdempotencyKey::MAX_LEN).
    #[error("the idempotency key is longer than {} characters; send a shorter one", headers::MAX_KEY)]
    TooLong,
}
