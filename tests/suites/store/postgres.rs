//! The conformance suite on [`PostgresStore`], with the API's own role.

use crate::prelude::*;

/// Stores on databases of the sample.
pub(crate) struct On<F>(pub(crate) F);

impl<F: Fn(&Database) -> PostgresStore + Send + Sync> Harness for On<F> {
    type Store = PostgresStore;
    type Fixture = Database;

    async fn store(&self) -> (PostgresStore, Database) {
        let database = Database::new().await;
        ((self.0)(&database), database)
    }

    async fn resource(&self, _: &PostgresStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
        database.project(status).await
    }
}

conformance_tests!(On(Database::store));
