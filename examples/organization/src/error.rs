//! The error of the sample.

/// The reason why the sample cannot run, readable for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
