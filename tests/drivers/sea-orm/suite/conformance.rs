//! The conformance suite of stores, with the API's own role: on a server, and behind PgBouncer.

use scratch_postgres::{PgBouncer, skip};
use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::conformance::{Harness, conformance_tests},
};
use tonic_idempotency_sea_orm::SeaOrmStore;
use tonic_idempotency_tests::Database;

use crate::harness::{connect, connect_through, patient};

mod on_a_server {
    use super::*;

    struct Server;

    impl Harness for Server {
        type Store = SeaOrmStore;
        type Fixture = Database;

        async fn store(&self) -> (SeaOrmStore, Database) {
            let database = Database::new().await;
            (patient(&connect(&database, 8).await), database)
        }

        async fn resource(&self, _: &SeaOrmStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
            database.project(status).await
        }
    }

    conformance_tests!(Server);
}

mod behind_pgbouncer {
    use super::*;

    struct Bouncer;

    impl Harness for Bouncer {
        type Store = SeaOrmStore;
        type Fixture = (Database, Option<PgBouncer>);

        async fn store(&self) -> (SeaOrmStore, Self::Fixture) {
            let database = Database::new().await;
            if let Some(why) = PgBouncer::missing() {
                // A case of the suite cannot be left out, so it runs without PgBouncer.
                skip("pgbouncer", why);
                return (patient(&connect(&database, 8).await), (database, None));
            }
            let (bouncer, _) = database.pool_through_bouncer(1).await;
            (patient(&connect_through(&bouncer, 8).await), (database, Some(bouncer)))
        }

        async fn resource(
            &self,
            _: &SeaOrmStore,
            (database, _): &Self::Fixture,
            status: Option<OutboxStatus>,
        ) -> Resource {
            database.project(status).await
        }
    }

    conformance_tests!(Bouncer);
}
