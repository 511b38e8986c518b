//! The store on servers that are more than one PostgreSQL: on Citus, and on one that `pg_upgrade` has upgraded.

mod citus;
#[allow(dead_code, reason = "the suite `store` uses the rest")]
mod record;
mod upgrade;
