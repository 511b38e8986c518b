//! The migrations as SQL.

use crate::store::{
    Schema,
    files::{CITUS, FILES, LIMITS, PARTITIONS, Pack, applied},
    literal,
};

/// The oldest major version of PostgreSQL whose servers the migrations accept. The gate runs the tests on it; docs/database.md says
/// what each version brings.
const OLDEST_SERVER: u32 = 14;

/// Runs a file unless the database has it.
const ONCE: &str = include_str!("once.sql");

/// Returns the migrations with the names of this schema, in their order, for the application's own runner.
///
/// ```
/// use tonic_idempotency::{migrations, store::Schema};
///
/// let all = migrations::all(&Schema::default());
/// assert_eq!((all[0].version(), all[0].name()), (1, "table"));
/// assert!(all[0].sql().contains("tenant.idempotency_keys"));
/// assert!(all.iter().map(|migration| migration.version()).eq(1..=all.len() as u32));
/// ```
pub fn all(schema: &Schema) -> Vec<Migration> {
    (1..).zip(FILES).map(|(version, (name, sql))| Migration::new(version, name, sql, schema)).collect()
}

/// Returns the SQL that validates what the registration of resource types has added, for the application's own runner: run it
/// in a later transaction than the [registration](crate::store::ResourceType::registration_sql). `register` (feature `postgres`)
/// does both.
///
/// ```
/// use tonic_idempotency::{migrations, store::Schema};
///
/// assert_eq!(migrations::validation_sql(&Schema::default()), "SELECT tenant.idempotency_validate();");
/// ```
pub fn validation_sql(schema: &Schema) -> String {
    schema.apply("SELECT tenant.idempotency_validate();").into_owned()
}

/// Returns the SQL that grants a role the privileges that the store needs, for the application's own runner. Run it as the owner
/// of the table, after the migrations, and again after each new migration: it may add functions. A role that has the
/// privileges changes nothing. `grant` (feature `postgres`) does the same, and says which role it should be.
///
/// ```
/// use tonic_idempotency::{migrations, store::Schema};
///
/// let sql = migrations::grant_sql(&Schema::default(), "my_api_role");
/// assert_eq!(sql, "SELECT tenant.idempotency_grant('my_api_role');");
/// ```
pub fn grant_sql(schema: &Schema, role: &str) -> String {
    format!("{}({});", schema.apply("SELECT tenant.idempotency_grant"), literal(role))
}

/// Returns the SQL that distributes the table of keys by user over the nodes of a Citus cluster, and moves the store's functions to the
/// node that holds the row. Run it on the coordinator, as the owner of the table, after the migrations and all registrations, and
/// again after each further one. It refuses a partitioned table. `docs/citus.md` has the rest of the set-up.
///
/// ```
/// use tonic_idempotency::{migrations, store::Schema};
///
/// let sql = migrations::distribution_sql(&Schema::default());
/// assert!(sql.contains("create_distributed_table('tenant.idempotency_keys', 'user_id')"));
/// ```
pub fn distribution_sql(schema: &Schema) -> String {
    schema.apply(CITUS).into_owned()
}

/// Returns the SQL that makes an empty table of keys one of this many partitions, hash-partitioned by user, for the application's own
/// runner. Run it after the migrations. It brings the functions that it needs, which the core does not have. A table with as many partitions
/// is not changed. `partition` (feature `postgres`) does the same, and says when the database refuses.
///
/// ```
/// use tonic_idempotency::{migrations, store::Schema};
///
/// let sql = migrations::partition_sql(&Schema::default(), 16);
/// assert!(sql.ends_with("SELECT tenant.idempotency_partition(16);"));
/// ```
pub fn partition_sql(schema: &Schema, partitions: u16) -> String {
    format!("{}\n{}({partitions});", partitions_sql(schema), schema.apply("SELECT tenant.idempotency_partition"))
}

/// Returns the SQL of the functions that partitions need, which the core does not have: [`partition_sql`] brings them, and
/// `CALL tenant.idempotency_move_to_partitions(16)` needs them. `partitions` (feature `postgres`) does the same.
///
/// ```
/// use tonic_idempotency::{migrations, store::Schema};
///
/// assert!(migrations::partitions_sql(&Schema::default()).contains("tenant.idempotency_move_to_partitions"));
/// ```
pub fn partitions_sql(schema: &Schema) -> String {
    Migration::of_pack(&PARTITIONS, schema).sql
}

/// Returns the SQL of the table and the functions that a limit of one user's records needs
/// ([`Limits::records`](crate::policy::Limits::records)), which the core does not have. For the application's own runner: run it after the
/// migrations, and [grant](grant_sql) after it. `limits` (feature `postgres`) does the same.
///
/// ```
/// use tonic_idempotency::{migrations, store::Schema};
///
/// assert!(migrations::limits_sql(&Schema::default()).contains("tenant.idempotency_allowances"));
/// ```
pub fn limits_sql(schema: &Schema) -> String {
    Migration::of_pack(&LIMITS, schema).sql
}

/// A migration of the tables and functions of the store.
///
/// A released migration never changes, and its SQL for a schema neither: a runner that keeps checksums accepts it from every
/// later version of the crate, which adds migrations with higher versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    version: u32,
    name: &'static str,
    sql: String,
}

impl Migration {
    fn new(version: u32, name: &'static str, sql: &'static str, schema: &Schema) -> Self {
        let (sql, checksum) = applied(schema, sql);
        let (number, oldest, none) = (version.to_string(), OLDEST_SERVER.to_string(), schema.apply(ONCE));
        // The SQL is last: it is not searched.
        let values = [
            ("{version}", number.as_str()),
            ("{oldest_server}", &oldest),
            ("{name}", name),
            ("{schema}", schema.name()),
            ("{checksum}", &checksum),
            ("{sql}", &sql),
        ];
        let once = values.iter().fold(none.into_owned(), |text, (key, value)| text.replace(key, value));
        Self { version, name, sql: once }
    }

    fn of_pack(pack: &Pack, schema: &Schema) -> Self {
        Self::new(pack.version, pack.name, pack.sql, schema)
    }

    /// Returns the number of the migration, from 1.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the name: letters, digits and `_`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the SQL. It may run in a transaction, and is one if there is none and it is sent as a whole. Settings of the role and the
    /// encoding of the database do not matter. If the database has the migration, it changes and locks nothing.
    pub fn sql(&self) -> &str {
        &self.sql
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd() -> Schema {
        Schema::new("another").and_then(|schema| schema.table("keys")).expect("names")
    }

    fn with_packs(schema: &Schema) -> Vec<Migration> {
        let packs = [LIMITS, PARTITIONS].map(|pack| Migration::of_pack(&pack, schema));
        all(schema).into_iter().chain(packs).collect()
    }

    /// A name that [`Schema::apply`] does not know would lead into the default schema.
    #[test]
    fn name_the_schema_in_no_way_that_cannot_be_changed() {
        for migration in with_packs(&odd()) {
            for line in migration.sql().lines().map(|line| line.split("--").next().unwrap_or_default()) {
                assert!(!line.contains("tenant"), "{}: {line}", migration.name());
            }
        }
    }

    /// Flyway replaces `${…}` in a file, and the other quotes end where their tag is.
    #[test]
    fn hold_nothing_that_a_runner_or_a_quote_takes_for_its_own() {
        for migration in with_packs(&Schema::default()) {
            assert_eq!(migration.sql().matches("$once$").count(), 2, "{}", migration.name());
            assert_eq!(migration.sql().matches("$migration$").count(), 2, "{}", migration.name());
            assert!(!migration.sql().contains("${"), "{}", migration.name());
            assert!(
                !migration.sql().contains("{version}") && !migration.sql().contains("{sql}"),
                "{}",
                migration.name()
            );
        }
    }
}
