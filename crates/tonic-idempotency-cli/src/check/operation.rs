//! An operation: what is to have one effect, however often it is sent.

use bytes::Bytes;
use prost_reflect::DynamicMessage;
use uuid::Uuid;

/// What an operation is sent with, and what it sends.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// What `{{uuid}}` stands for.
    pub(super) uuid: Uuid,
    pub(super) key: String,
    pub(super) message: DynamicMessage,
    /// The message, in its canonical encoding: each attempt sends the same bytes.
    pub(super) encoded: Bytes,
}
