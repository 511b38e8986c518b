//! The error of the example.

/// The reason why the example ends, readable for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
