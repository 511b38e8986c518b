//! The options of the command.

use std::path::PathBuf;

use tonic_idempotency::store::{InvalidIdentifier, ResourceType, Schema};

use super::format::Format;

/// Writes the migrations as files for the migration runner of the application.
///
/// Put them into the folder of the application's own migrations: they get versions after those that are there, in the same
/// numbering. Files that are there already and are the same stay. Run the command again with the same options after an upgrade of
/// tonic-idempotency: it adds what is new. To add a resource type or a role, add it to the options.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The runner of the migrations.
    #[arg(long, value_enum, value_name = "RUNNER")]
    pub(crate) format: Format,

    /// The folder of the migrations. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// The schema of the tables and functions.
    #[arg(long, value_name = "NAME", default_value = "tenant")]
    schema: String,

    /// The table of keys.
    #[arg(long, value_name = "NAME", default_value = "idempotency_keys")]
    table: String,

    /// Makes what the limit of one user's records (`Limits::records`) needs.
    #[arg(long)]
    pub(crate) limits: bool,

    /// Makes the table of keys one of this many partitions, hash-partitioned by user: from 2 to 256; 16 is right for nearly all. The
    /// migration fails if the table has records. By default, the table has no partitions.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(2..=256))]
    pub(crate) partitions: Option<u16>,

    /// A type of resource to register, such as invoice:invoice_id:billing.invoices: its name, its column in the table of keys, and
    /// its own table, which has to exist when the migration is run. May be repeated.
    #[arg(long = "resource-type", value_name = "NAME:COLUMN:TABLE", value_parser = resource_type)]
    pub(crate) resource_types: Vec<ResourceType>,

    /// A role that the API logs in as, to be granted what the store needs. It has to exist when the migration is run. May be
    /// repeated.
    #[arg(long = "grant", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,

    /// The version of the first new file; the others follow it. By default, the version after the newest in the folder. In an
    /// empty folder, the time in UTC, and 1 for refinery and Flyway.
    #[arg(long, value_name = "NUMBER", value_parser = version)]
    pub(crate) first_version: Option<String>,
}

impl Options {
    /// Returns the names of the schema and of the table.
    pub(crate) fn schema(&self) -> Result<Schema, InvalidIdentifier> {
        Schema::new(&self.schema)?.table(&self.table)
    }
}

fn resource_type(text: &str) -> Result<ResourceType, String> {
    match text.split(':').collect::<Vec<_>>()[..] {
        [name, column, table] if ![name, column, table].contains(&"") => Ok(ResourceType::new(name, column, table)),
        _ => Err("expected NAME:COLUMN:TABLE, such as invoice:invoice_id:billing.invoices".to_owned()),
    }
}

fn version(text: &str) -> Result<String, String> {
    if (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("expected from 1 to 18 digits".to_owned())
    }
}
