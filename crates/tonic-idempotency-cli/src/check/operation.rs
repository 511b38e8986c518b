//! An operation: what is to have one effect, however often it is sent.

use bytes::Bytes;
use prost_reflect::DynamicMessage;
use uuid::Uuid;

/// An operation's key and message.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The value of `{{uuid}}`.
    pub(super) uuid: Uuid,
    pub(super) key: String,
    pub(super) message: DynamicMessage,
    /// The message, in its canonical encoding: each attempt sends the same bytes.
    pub(super) encoded: Bytes,
}
