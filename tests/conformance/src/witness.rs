//! The runs of one call's handler.

use std::sync::{Arc, Mutex, PoisonError};

use tonic::Code;

/// Records the runs of a call's handler. In the extensions of the call's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    runs: Arc<Mutex<Runs>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Runs {
    pub(crate) started: usize,
    pub(crate) ended: usize,
    /// The code of the last run that has ended.
    pub(crate) code: Option<Code>,
}

impl Witness {
    pub(crate) fn start(&self) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).started += 1;
    }

    pub(crate) fn end(&self, code: Code) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.ended += 1;
        runs.code = Some(code);
    }

    pub(crate) fn runs(&self) -> Runs {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
