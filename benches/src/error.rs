//! The error of a benchmark.

/// Why a benchmark could not run, as a sentence for its user.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
