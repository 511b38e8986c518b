//! The SQL files of the migrations, and the objects that they make.

use sha2::{Digest as _, Sha256};

use super::Schema;

// By `build.rs`: `FILES`, `ROUTINES`, `GRANTED`, `CHECKS` and `VERSION`.
include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// A pack: an optional part beside the core. Its version is above all that the files of the core will have.
pub(crate) struct Pack {
    pub(crate) version: u32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// The limits of one user's records.
pub(crate) const LIMITS: Pack =
    Pack { version: 101, name: "limits", sql: include_str!("../../migrations/packs/limits.sql") };

/// Partitions of the table, and the move of a table in use to partitions.
pub(crate) const PARTITIONS: Pack =
    Pack { version: 102, name: "partitions", sql: include_str!("../../migrations/packs/partitions.sql") };

/// Citus. It is not recorded: it is run again after each registration.
pub(crate) const CITUS: &str = include_str!("../../migrations/packs/citus.sql");

/// Returns the SQL of a file for a schema, and its checksum, which the database keeps.
pub(crate) fn applied(schema: &Schema, sql: &'static str) -> (String, String) {
    let sql = schema.apply(sql);
    let checksum = Sha256::digest(sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    (sql.into_owned(), checksum)
}
