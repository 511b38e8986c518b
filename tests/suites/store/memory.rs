//! The conformance suite on [`MemoryStore`].

use tonic_idempotency::store::MemoryStore;

use crate::prelude::*;

struct Memory;

impl Harness for Memory {
    type Store = MemoryStore;
    type Fixture = ();

    async fn store(&self) -> (MemoryStore, ()) {
        (MemoryStore::new().accept_transactions(), ())
    }

    async fn resource(&self, store: &MemoryStore, (): &(), status: Option<OutboxStatus>) -> Resource {
        let resource = Resource { resource_type: "project".to_owned(), id: Uuid::new_v4().into() };
        store.set_status(resource.id.clone(), status);
        resource
    }
}

conformance_tests!(Memory);
