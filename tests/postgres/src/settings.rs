//! How private servers are set up.

/// Everything is thrown away in the end; and room for tests that run side by side.
const ALWAYS: [(&str, &str); 3] = [
    // Parallel queries share memory in the data directory, which is removed in any case, and not in /dev/shm.
    ("dynamic_shared_memory_type", "mmap"),
    // The machine does not go down in the middle, or everything is lost anyway.
    ("fsync", "off"),
    ("max_connections", "300"),
];

/// What a private server keeps when its processes are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Every transaction whose COMMIT was answered. What they wrote is with the kernel by then, so that this costs no
    /// `fsync`; but a page may be half written, so that the log needs whole ones.
    Commits,
    /// Nothing in particular: the fastest.
    Nothing,
}

impl Durability {
    fn settings(self) -> [(&'static str, &'static str); 2] {
        let switch = match self {
            Self::Commits => "on",
            Self::Nothing => "off",
        };
        [("full_page_writes", switch), ("synchronous_commit", switch)]
    }
}

/// The settings as arguments of `postgres`.
pub(crate) fn arguments(durability: Durability) -> impl Iterator<Item = String> {
    let settings = ALWAYS.into_iter().chain(durability.settings());
    settings.flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")])
}
