//! The store on servers that are more than one PostgreSQL: on Citus, and on one that `pg_upgrade` has upgraded.

mod citus;
mod record;
mod upgrade;
