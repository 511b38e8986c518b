//! The conformance suite on [`PostgresStore`], with the API's own role.

use crate::prelude::*;

struct Postgres;

impl Harness for Postgres {
    type Store = PostgresStore;
    type Fixture = Database;

    async fn store(&self) -> (PostgresStore, Database) {
        let database = Database::new().await;
        (database.store(), database)
    }

    async fn resource(&self, _: &PostgresStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
        database.project(status).await
    }
}

conformance_tests!(Postgres);
