//! Keys: as callers write them, and as they are stored.

mod format;
mod header;
mod id;
mod idempotency_key;
mod invalid;
mod text;
mod uuid_text;

pub use self::{format::KeyFormat, id::KeyId, idempotency_key::IdempotencyKey, invalid::InvalidKey};
