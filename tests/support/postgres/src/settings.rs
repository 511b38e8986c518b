//! How private servers are set up.

/// Room for tests that run side by side.
const ALWAYS: [(&str, &str); 2] = [
    // Parallel queries share memory in the data directory, which is removed in any case, and not in /dev/shm.
    ("dynamic_shared_memory_type", "mmap"),
    ("max_connections", "300"),
];

/// What a private server keeps when its processes are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Every transaction whose COMMIT was answered. What they wrote is with the kernel by then, so that this costs no
    /// `fsync`; but a page may be half written, so that the log needs whole ones.
    Commits,
    /// As a server that is there to stay: PostgreSQL's own defaults, so that commits take the time that they take. Its memory is
    /// what a small one is given.
    Disk,
    /// Nothing in particular: the fastest.
    Nothing,
}

impl Durability {
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // The machine does not go down in the middle, or everything is lost anyway.
            Self::Commits => &[("fsync", "off")],
            Self::Disk => &[("max_wal_size", "4GB"), ("shared_buffers", "512MB")],
            Self::Nothing => &[("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")],
        }
    }
}

/// The settings as arguments of `postgres`.
pub(crate) fn arguments(durability: Durability) -> impl Iterator<Item = String> {
    let settings = ALWAYS.iter().chain(durability.settings());
    settings.flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")])
}
