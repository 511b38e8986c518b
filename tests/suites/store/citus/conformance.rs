//! The conformance suite on a distributed table.

use super::distributed::Distributed;
use crate::prelude::*;

struct Citus;

/// The database with the store's table.
enum Place {
    Distributed(Distributed),
    /// Without Citus. The skip is reported, but a case of the suite cannot be left out: it runs on one server.
    OneServer(Database),
}

impl Harness for Citus {
    type Store = PostgresStore;
    type Fixture = Place;

    async fn store(&self) -> (PostgresStore, Place) {
        match Distributed::take().await {
            Some(distributed) => (distributed.store(), Place::Distributed(distributed)),
            None => {
                let database = Database::new().await;
                (database.store(), Place::OneServer(database))
            }
        }
    }

    async fn resource(&self, _: &PostgresStore, place: &Place, status: Option<OutboxStatus>) -> Resource {
        let distributed = match place {
            Place::Distributed(distributed) => distributed,
            Place::OneServer(database) => return database.project(status).await,
        };
        let status = status.map(|status| match status {
            OutboxStatus::Completed => "completed",
            OutboxStatus::Failed => "failed",
            OutboxStatus::Pending => "pending",
            OutboxStatus::Retrying => "retrying",
        });
        let insert = "INSERT INTO app.projects (status) VALUES ($1) RETURNING id";
        let row = distributed.superuser().await.query_one(insert, &[&status]).await.expect("the project is made");
        Resource { resource_type: "project".to_owned(), id: row.get::<_, Uuid>(0).into() }
    }
}

conformance_tests!(Citus);
