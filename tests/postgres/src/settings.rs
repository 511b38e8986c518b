//! How private servers are set up.

/// Fast rather than durable, because everything is thrown away; and room for tests that run side by side.
const SETTINGS: [(&str, &str); 5] = [
    // Parallel queries share memory in the data directory, which is removed in any case, and not in /dev/shm.
    ("dynamic_shared_memory_type", "mmap"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("max_connections", "300"),
    ("synchronous_commit", "off"),
];

/// The settings as arguments of `postgres`.
pub(crate) fn arguments() -> impl Iterator<Item = String> {
    SETTINGS.into_iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")])
}
