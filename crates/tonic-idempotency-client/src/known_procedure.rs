//! The knowledge of whether a server protects a procedure.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::{description::ProcedureQuestion, permission::Standing};

const UNKNOWN: u8 = 0;
const SHOWN: u8 = 1;
const MISSING: u8 = 2;

/// The knowledge of whether a server protects a procedure: by its answers, and by asking.
#[derive(Debug, Default)]
pub(crate) struct KnownProcedure {
    standing: AtomicU8,
    pub(crate) question: ProcedureQuestion,
    /// Whether the log says that the server does not protect it.
    is_told: AtomicBool,
}

impl KnownProcedure {
    pub(crate) fn standing(&self) -> Standing {
        match self.standing.load(Ordering::Relaxed) {
            SHOWN => Standing::Shown,
            MISSING => Standing::Missing,
            _ => Standing::Unknown,
        }
    }

    /// Notes an answer that has shown the layer, or that it is missing.
    pub(crate) fn heard(&self, procedure: &str, is_protected: bool) {
        let heard = if is_protected { SHOWN } else { MISSING };
        if self.standing.load(Ordering::Relaxed) == heard || self.standing.swap(heard, Ordering::Relaxed) == heard {
            return;
        }
        if !is_protected {
            tracing::warn!(
                procedure,
                "a success has no idempotency-status: does its server have the layer? Without it, each attempt of a call runs"
            );
        }
    }

    /// Notes that the server says that it protects the procedure. The last success counts for more, if it had no status.
    pub(crate) fn is_described(&self) {
        let _ = self.standing.compare_exchange(UNKNOWN, SHOWN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Notes that the server says that it does not protect the procedure, so that a call is not sent.
    pub(crate) fn is_not_protected(&self, procedure: &str) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                procedure,
                "the server says that its layer does not protect the procedure: no call is sent again whose outcome is unknown"
            );
        }
    }
}
