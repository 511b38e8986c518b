//! The SQL files of the migrations, and the objects that they make.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::Schema;

/// The SQL files in `migrations/core/`, in their order, and their names.
pub(crate) const FILES: [(&str, &str); 9] = [
    ("table", include_str!("../../migrations/core/V1__table.sql")),
    ("decisions", include_str!("../../migrations/core/V2__decisions.sql")),
    ("reserved", include_str!("../../migrations/core/V3__reserved.sql")),
    ("transactional", include_str!("../../migrations/core/V4__transactional.sql")),
    ("shared", include_str!("../../migrations/core/V5__shared.sql")),
    ("resource_types", include_str!("../../migrations/core/V6__resource_types.sql")),
    ("operators", include_str!("../../migrations/core/V7__operators.sql")),
    ("operations", include_str!("../../migrations/core/V8__operations.sql")),
    ("rights", RIGHTS),
];

const RIGHTS: &str = include_str!("../../migrations/core/V9__rights.sql");

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

/// The prefix of the names of all routines.
const ROUTINE: &str = "tenant.idempotency_";

/// Returns the SQL of a file for a schema, and its checksum, which the database keeps.
pub(crate) fn applied(schema: &Schema, sql: &'static str) -> (String, String) {
    let sql = schema.apply(sql);
    let checksum = Sha256::digest(sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    (sql.into_owned(), checksum)
}

/// Returns the names of the routines that the files make, and the number of the first file that makes each.
pub(crate) fn routines() -> BTreeMap<&'static str, usize> {
    let mut made = BTreeMap::new();
    for (number, (_, sql)) in (1..).zip(FILES) {
        for kind in
            ["CREATE FUNCTION ", "CREATE PROCEDURE ", "CREATE OR REPLACE FUNCTION ", "CREATE OR REPLACE PROCEDURE "]
        {
            for name in sql.split(kind).skip(1).filter_map(routine) {
                made.entry(name).or_insert(number);
            }
        }
    }
    made
}

/// Returns the names of the routines that the API's role is granted.
pub(crate) fn granted() -> BTreeSet<&'static str> {
    let list = RIGHTS.split("p.proname IN (").nth(1).and_then(|list| list.split(')').next()).unwrap_or_default();
    list.split('\'').skip(1).step_by(2).map(|name| name.trim_start_matches("idempotency_")).collect()
}

/// Returns the names of the checks of the table that do not depend on resource types.
pub(crate) fn checks() -> BTreeSet<&'static str> {
    let [(_, table), ..] = FILES;
    table.split("ADD CONSTRAINT ").skip(1).map(name).filter(|name| name.contains("_ck_")).collect()
}

/// Returns the name of a routine without the prefix.
fn routine(sql: &'static str) -> Option<&'static str> {
    sql.strip_prefix(ROUTINE).map(word)
}

fn word(sql: &'static str) -> &'static str {
    sql.split('(').next().unwrap_or_default()
}

fn name(sql: &'static str) -> &'static str {
    sql.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn make_routines_some_of_which_the_role_of_the_api_is_granted() {
        let (routines, granted) = (routines(), granted());
        assert!(routines.len() > 60 && granted.len() > 40, "{routines:?}, {granted:?}");
        let unknown: Vec<_> = granted.iter().filter(|name| !routines.contains_key(*name)).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
        assert!((1..=FILES.len()).all(|number| routines.values().any(|made| *made == number)), "each file makes some");
        assert!(
            routines.contains_key("seed") && routines.contains_key("complete_many") && routines.contains_key("uuidv7")
        );
    }

    #[test]
    fn make_the_checks_of_the_table() {
        assert!(checks().into_iter().eq(["idempotency_keys_ck_one_outcome"]), "{:?}", checks());
    }
}
