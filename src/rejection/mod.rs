//! Rejections of calls.

mod malformed;
mod mismatch;
mod reason;
mod refusal;

pub(crate) use self::{
    malformed::{MalformedRequest, TooCostly},
    refusal::Rejection,
};
pub use self::{
    mismatch::Mismatch,
    reason::{DOMAIN, Reason, UnknownReason},
};
pub use crate::key::InvalidKey;
