//! The handler's side of an operation that runs: [`Call`].

use std::fmt;

use http::Extensions;

use crate::{Caller, Execution, IdempotencyKey};

/// The call that a handler of an [`Operation`](super::Operation) belongs to.
///
/// A transactional handler takes its transaction from the [extensions](Self::extensions), as a gRPC handler does:
/// `Transaction::from_extensions(call.extensions())`, with the `Transaction` of its driver.
pub struct Call {
    pub(super) caller: Caller,
    pub(super) key: IdempotencyKey,
    pub(super) extensions: Extensions,
}

impl Call {
    /// Returns the caller that the operation is run for.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the key. Its text is the id that the operation was run with. Its [`id`](IdempotencyKey::id), as which it is stored, is made of
    /// the operation and the id: a UUIDv8 of the SHA-256 of `tonic-idempotency operation `, the column `procedure`, a space and the id, a UUID
    /// in its usual form; of a UUIDv7 it keeps the time and the version. In SQL it is `tenant.idempotency_operation_key`.
    ///
    /// Its [`downstream`](IdempotencyKey::downstream) makes the keys of further calls, to other systems; for further operations there is
    /// [`run_within`](super::Operation::run_within).
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// Returns the state that the handler shares with the layer: whether the lease is lost, whether the effect has happened.
    pub fn execution(&self) -> Execution {
        Execution::from_extensions(&self.extensions)
    }

    /// Returns the handler's tools, by their types.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("caller", &self.caller).field("key", &self.key).finish_non_exhaustive()
    }
}
