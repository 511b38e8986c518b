//! The faults that a run has only behind PgBouncer.

/// Faults that happen behind PgBouncer.
pub(crate) const BOUNCER_FAULTS: [&str; 5] = [
    "connection of PgBouncer cut after a COMMIT",
    "connection of PgBouncer cut before a COMMIT",
    "all connections of PgBouncer cut",
    "connections of PgBouncer silent",
    "sessions of PgBouncer terminated",
];
