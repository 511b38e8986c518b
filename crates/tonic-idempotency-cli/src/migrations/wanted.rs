//! The migrations that a folder should have.

use std::collections::HashSet;

use tonic_idempotency::{
    migrations::{self, grant_sql, limits_sql, partition_sql, validation_sql},
    store::Schema,
};

use super::{Error, Options, migration::Migration};

/// Returns the migrations of the options, in their order: those of the library, then the limits, the partitions, the resource types, the grants.
///
/// A grant has the version of the library's migrations in its name: a newer version may add functions, and is granted in a file
/// of its own. The constraints of a type are validated in a file of their own, and so in a later transaction: claims go on while
/// the table is read.
pub(super) fn all(options: &Options) -> Result<Vec<Migration>, Error> {
    let schema = options.schema()?;
    let prefix = prefix(&schema);
    let library = migrations::all(&schema);
    let version = library.last().map_or(0, migrations::Migration::version);

    let mut all: Vec<_> = library
        .iter()
        .map(|migration| Migration {
            name: format!("{prefix}_{}_{}", migration.version(), migration.name()),
            sql: migration.sql().to_owned(),
        })
        .collect();
    if options.limits {
        all.push(Migration { name: format!("{prefix}_limits"), sql: limits_sql(&schema) });
    }
    if let Some(partitions) = options.partitions {
        all.push(Migration {
            name: format!("{prefix}_partition"),
            sql: format!(
                "-- Makes the table of keys of tonic-idempotency one of {partitions} partitions. Changes nothing if it has as many. Fails\n\
                 -- if it has records: CALL tenant.idempotency_move_to_partitions({partitions}) moves them while calls go on.\n\
                 {}\n",
                partition_sql(&schema, partitions)
            ),
        });
    }
    for known in &options.resource_types {
        all.push(Migration {
            name: format!("{prefix}_register_{}", word(known.name())),
            sql: format!(
                "-- Registers a resource type of tonic-idempotency. Changes nothing if it is registered. Fails if another\n\
                 -- transaction locks the table of keys or that of the resources for half a second: run it again then.\n\
                 {}\n",
                known.registration_sql(&schema)
            ),
        });
    }
    for known in &options.resource_types {
        all.push(Migration {
            name: format!("{prefix}_validate_{}", word(known.name())),
            sql: format!(
                "-- Checks the rows of tonic-idempotency that were there before a resource type was registered. Calls go on\n\
                 -- meanwhile, because the registration is in another transaction.\n\
                 {}\n",
                validation_sql(&schema)
            ),
        });
    }
    for role in &options.roles {
        all.push(Migration {
            name: format!("{prefix}_{version}_grant_{}", word(role)),
            sql: format!(
                "-- Grants the API's role what it needs of version {version} of tonic-idempotency's migrations.\n{}\n",
                grant_sql(&schema, role)
            ),
        });
    }
    unique(all)
}

/// Returns the beginning of all names. A folder may hold several schemas.
fn prefix(schema: &Schema) -> String {
    if schema.name() == Schema::default().name() {
        "tonic_idempotency".to_owned()
    } else {
        format!("tonic_idempotency_{}", word(schema.name()))
    }
}

/// Returns a name as a part of a file's name.
fn word(name: &str) -> String {
    name.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect()
}

fn unique(migrations: Vec<Migration>) -> Result<Vec<Migration>, Error> {
    let mut names = HashSet::new();
    match migrations.iter().find(|migration| !names.insert(&migration.name)) {
        Some(twice) => Err(Error::Twice { name: twice.name.clone() }),
        None => Ok(migrations),
    }
}
