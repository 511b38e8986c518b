//! The conformance suite of stores, on the simulated database.

use simulation::{
    database::{Database, SimulatedStore, resource_types},
    world::{Host, Keeps, Link, World, run},
};
use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::conformance::{Harness, conformance_tests},
};
use uuid::Uuid;

struct Simulated(World);

impl Harness for Simulated {
    type Store = SimulatedStore;
    type Fixture = Database;

    async fn store(&self) -> (SimulatedStore, Database) {
        let database = Database::new(&self.0);
        let (process, link) = (Host::new(&self.0, "server").start(), Link::new(self.0.random("link")));
        (SimulatedStore::new(database.pool(&process, link, 8), resource_types()), database)
    }

    async fn resource(&self, _: &SimulatedStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
        let resource = Resource { resource_type: "project".to_owned(), id: Uuid::new_v4().into() };
        database.set_status(&resource.id, status);
        resource
    }
}

fn in_a_world<F: AsyncFnOnce(Simulated) + Send + 'static>(case: F) {
    run(1, Keeps::Nothing, |world| async move { case(Simulated(world)).await });
}

conformance_tests!(by in_a_world);
