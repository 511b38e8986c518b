//! The conformance suite of stores, with the API's own role, on both pools.

use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::conformance::{Harness, conformance_tests},
};
use tonic_idempotency_diesel::DieselStore;
use tonic_idempotency_tests::Database;

use crate::pools::{bb8, deadpool, patient};

mod on_deadpool {
    use super::*;

    struct OnDeadpool;

    impl Harness for OnDeadpool {
        type Store = DieselStore;
        type Fixture = Database;

        async fn store(&self) -> (DieselStore, Database) {
            let database = Database::new().await;
            (patient(deadpool(database.url(), 8, "")), database)
        }

        async fn resource(&self, _: &DieselStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
            database.project(status).await
        }
    }

    conformance_tests!(OnDeadpool);
}

mod on_bb8 {
    use super::*;

    struct OnBb8;

    impl Harness for OnBb8 {
        type Store = DieselStore;
        type Fixture = Database;

        async fn store(&self) -> (DieselStore, Database) {
            let database = Database::new().await;
            (patient(bb8(database.url(), 8, "")), database)
        }

        async fn resource(&self, _: &DieselStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
            database.project(status).await
        }
    }

    conformance_tests!(OnBb8);
}
