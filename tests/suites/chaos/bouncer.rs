//! What a run behind PgBouncer has besides.

/// Faults that happen behind PgBouncer.
pub(crate) const BOUNCER_FAULTS: [&str; 5] = [
    "connection of PgBouncer cut after a COMMIT",
    "connection of PgBouncer cut before a COMMIT",
    "all connections of PgBouncer cut",
    "connections of PgBouncer silent",
    "sessions of PgBouncer terminated",
];
