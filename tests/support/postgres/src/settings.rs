//! The settings of private servers.

/// The settings of every private server, with room for tests that run at the same time.
const ALWAYS: [(&str, &str); 3] = [
    // Parallel queries get shared memory in the data directory, which is always removed, instead of /dev/shm.
    ("dynamic_shared_memory_type", "mmap"),
    ("max_connections", "1000"),
    ("max_prepared_transactions", "10"),
];

/// The data that a private server keeps when its processes are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Every transaction whose COMMIT was answered. Its data is in the kernel by then, so no `fsync` is needed. A page
    /// may be half written, so the log needs full pages.
    Commits,
    /// The same as a production server: PostgreSQL's defaults, so that commits take their usual time. It has the memory
    /// settings of a small production server.
    Disk,
    /// No guarantees; the fastest setting.
    Nothing,
}

impl Durability {
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // The machine does not crash during a test; if it does, losing the data does not matter.
            Self::Commits => &[("fsync", "off")],
            Self::Disk => &[("max_wal_size", "4GB"), ("shared_buffers", "512MB")],
            // The log is small, because it may be in memory.
            Self::Nothing => &[
                ("fsync", "off"),
                ("full_page_writes", "off"),
                ("max_wal_size", "128MB"),
                ("synchronous_commit", "off"),
            ],
        }
    }
}

/// The settings as arguments of `postgres`.
pub(crate) fn arguments(durability: Durability) -> impl Iterator<Item = String> {
    let settings = ALWAYS.iter().chain(durability.settings());
    settings.flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")])
}
