/// Why the harness could not run: a sentence for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
