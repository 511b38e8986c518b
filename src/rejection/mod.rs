//! Rejections of calls.

mod limit;
mod malformed;
mod mismatch;
mod refusal;

pub use self::mismatch::Mismatch;
pub(crate) use self::{
    limit::{Exceeded, LimitKind, Party},
    malformed::{MalformedRequest, TooCostly},
    refusal::Rejection,
};
pub use crate::key::InvalidKey;
pub use tonic_idempotency_wire::{DOMAIN, Reason, UnknownReason};
