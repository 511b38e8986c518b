//! The error type of the harness.

/// The reason why the harness could not run, as a sentence for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
