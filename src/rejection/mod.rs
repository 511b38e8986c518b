//! Rejections of calls.

mod limit;
mod malformed;
mod mismatch;
#[expect(clippy::module_inception, reason = "the rejection itself")]
mod rejection;

pub use self::mismatch::Mismatch;
pub(crate) use self::{
    limit::{Exceeded, LimitKind, Party},
    malformed::{MalformedRequest, TooCostly},
    rejection::{Rejection, TimedOutEffect},
};
pub use crate::key::InvalidKey;
pub use tonic_idempotency_wire::{DOMAIN, Reason, UnknownReason};
