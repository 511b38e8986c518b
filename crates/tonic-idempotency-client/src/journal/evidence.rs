//! The procedures whose server has shown that it has the layer.

use std::{
    collections::HashSet,
    sync::{PoisonError, RwLock},
};

/// The procedures for which the last answer that shows it had the layer.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    procedures: RwLock<HashSet<String>>,
}

impl Evidence {
    /// Notes an answer that shows whether its server has the layer.
    pub(crate) fn note(&self, procedure: &str, is_protected: bool) {
        if self.has(procedure) == is_protected {
            return;
        }
        let mut procedures = self.procedures.write().unwrap_or_else(PoisonError::into_inner);
        if is_protected {
            procedures.insert(procedure.to_owned());
        } else {
            procedures.remove(procedure);
        }
    }

    pub(crate) fn has(&self, procedure: &str) -> bool {
        self.procedures.read().unwrap_or_else(PoisonError::into_inner).contains(procedure)
    }
}
