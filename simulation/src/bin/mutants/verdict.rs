//! The answer about a mutant.

use std::fmt;

/// The answer about a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    BreaksNothing {
        seeds: String,
    },
    BreaksAPromise {
        /// The seed and the promise, or the test, in words.
        seen: String,
    },
    /// It ended in another way than it may.
    Crashes,
    DoesNotCompile,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BreaksNothing { .. } => f.write_str("not found"),
            Self::BreaksAPromise { seen } => write!(f, "found: {seen}"),
            Self::Crashes => f.write_str("crashes"),
            Self::DoesNotCompile => f.write_str("does not compile"),
        }
    }
}
