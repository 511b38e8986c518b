//! Migrations of the table of keys, its row-level security and its functions. A [`Schema`](crate::store::Schema) names
//! them; by default the table is `tenant.idempotency_keys`.
//!
//! Run them with `run` (feature `postgres`), or with the application's own runner, such as sqlx, refinery, diesel, Flyway or psql:
//! [`all`] returns their SQL, and the program `tonic-idempotency` writes it as files. Either way, the table
//! `tenant.idempotency_migrations` records each migration, and a recorded migration changes nothing. So a database may
//! be migrated both ways, in any order, and by several servers at once. The role that runs the migrations owns the
//! tables. The migrations need PostgreSQL 14 or later, and adopt a table made by the Go interceptor's migrations.
//!
//! Further parts are optional: [limits](limits_sql) of one user's records, [partitions](partition_sql) for a table that
//! will have many millions of rows, and the [distribution](distribution_sql) over a Citus cluster.
//!
//! After the migrations, [register](crate::store::ResourceType::registration_sql) the resource types, if there are any,
//! and [grant](grant_sql) the API's role what it needs.
#![cfg_attr(
    feature = "postgres",
    doc = r#"
```no_run
use tonic_idempotency::{
    migrations,
    store::{ResourceType, ResourceTypes, Schema},
};

# async fn migrate() -> Result<(), Box<dyn std::error::Error>> {
let (mut owner, connection) = tokio_postgres::connect("host=localhost user=owner", tokio_postgres::NoTls).await?;
tokio::spawn(connection);

let schema = Schema::default();
migrations::run(&mut owner, &schema).await?;
let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
migrations::register(&mut owner, &schema, &types).await?;
migrations::grant(&owner, &schema, "my_api_role").await?;
# Ok(())
# }
```
"#
)]

#[cfg(feature = "postgres")]
mod error;
mod migration;
#[cfg(feature = "postgres")]
mod partition;
#[cfg(feature = "postgres")]
mod retries;
#[cfg(feature = "postgres")]
mod run;

pub use self::migration::{
    Migration, all, distribution_sql, grant_sql, limits_sql, partition_sql, partitions_sql, validation_sql,
};
#[cfg(feature = "postgres")]
pub use self::{
    error::MigrationError,
    partition::{move_to_partitions, partition, partitions},
    run::{grant, grant_operator, limits, register, run},
};
