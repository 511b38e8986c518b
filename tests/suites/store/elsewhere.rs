//! The store on servers that are more than one PostgreSQL: on Citus, and on one that `pg_upgrade` has upgraded; and with all settings and
//! in all encodings that a server can have.

mod batches {
    #[allow(dead_code, reason = "the suite `store` uses the rest")]
    pub(crate) mod statements;
}
mod citus;
#[allow(unused_imports, reason = "the suite `store` uses the rest")]
mod prelude;
#[allow(dead_code, reason = "the suite `store` uses the rest")]
mod record;
mod settings {
    mod all;
    mod everything;
}
mod upgrade;
