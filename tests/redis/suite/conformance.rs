//! The conformance suite: on one server, with Sentinel, on a cluster, and with answers that have reached a replica.

use std::sync::OnceLock;

use scratch_redis::Watched;
use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::conformance::{Harness, conformance_tests},
};
use tonic_idempotency_redis::{
    Durability, RedisStore,
    redis::sentinel::{SentinelClient, SentinelServerType},
};
use uuid::Uuid;

use crate::servers::{PATIENCE, are_missing, cluster, on_cluster, shared, watched};

/// A function that makes a store without records.
struct Made(fn() -> Option<RedisStore>);

impl Harness for Made {
    type Store = RedisStore;
    type Fixture = ();

    async fn store(&self) -> (RedisStore, ()) {
        ((self.0)().expect("they are not missing"), ())
    }

    async fn resource(&self, _: &RedisStore, (): &(), _: Option<OutboxStatus>) -> Resource {
        Resource { resource_type: "project".to_owned(), id: Uuid::new_v4().into() }
    }
}

mod on_a_server {
    use super::*;

    conformance_tests!(Made(shared), unless are_missing());
}

mod on_a_cluster {
    use super::*;

    conformance_tests!(Made(|| cluster().map(on_cluster)), unless are_missing());
}

mod on_a_cluster_with_replicas {
    use super::*;

    fn replicated() -> Option<RedisStore> {
        Some(on_cluster(cluster()?).durability(Durability::replicas(1).within(PATIENCE)))
    }

    conformance_tests!(Made(replicated), unless are_missing());
}

mod with_sentinel {
    use super::*;

    fn found() -> Option<RedisStore> {
        static WATCHED: OnceLock<Option<Watched>> = OnceLock::new();
        let watched = WATCHED.get_or_init(watched).as_ref()?;
        let name = watched.name().to_owned();
        let client = SentinelClient::build(watched.urls(), name, None, SentinelServerType::Master);
        let store = RedisStore::sentinel(client.expect("addresses")).timeout(PATIENCE);
        store.prefix(&Uuid::new_v4().to_string()).ok()
    }

    conformance_tests!(Made(found), unless are_missing());
}
