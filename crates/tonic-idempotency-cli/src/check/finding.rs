//! The finding of a check.

use crate::failure::Failure;

/// How a promise was found to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// By the number of effects.
    Effects(u64),
    /// By the answers alone.
    Answers,
}

/// Why a promise was not found to be kept.
#[derive(Debug)]
pub(super) enum Finding {
    Failed(String),
    /// It says what is missing.
    NotChecked(String),
    /// The server does not claim to do this.
    NotPromised(String),
    /// Nothing can be checked any more.
    Ended(Failure),
}

pub(super) type Checked = Result<Proof, Finding>;

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}

pub(super) fn failed<T>(evidence: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Failed(evidence.into()))
}

pub(super) fn not_checked<T>(needs: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::NotChecked(needs.into()))
}
