//! The servers that the tests share, and stores on them.

use std::{sync::OnceLock, time::Duration};

use scratch_postgres::skip;
use scratch_redis::{Cluster, Server, Watched};
use tonic_idempotency_redis::{
    RedisStore,
    redis::{Client, cluster::ClusterClientBuilder},
};
use uuid::Uuid;

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a primary of a cluster or under Sentinels may be silent, in milliseconds.
pub(crate) const DOWN_AFTER: u32 = 2000;

/// Returns whether the servers cannot be started here, and reports that the test is skipped.
pub(crate) fn are_missing() -> bool {
    match scratch_redis::missing() {
        Some(why) => {
            skip("redis", why);
            true
        }
        None => false,
    }
}

/// A server of its own, with these lines of configuration; `None`, as of the others, if it [cannot be started](are_missing).
pub(crate) fn start(configuration: &[&str]) -> Option<Server> {
    (!are_missing()).then(|| Server::start(configuration).expect("a server"))
}

/// A cluster of its own.
pub(crate) fn start_cluster(configuration: &[&str]) -> Option<Cluster> {
    (!are_missing()).then(|| Cluster::start(DOWN_AFTER, configuration).expect("a cluster"))
}

/// A primary with a replica and Sentinels, of its own.
pub(crate) fn watched() -> Option<Watched> {
    (!are_missing()).then(|| Watched::start(DOWN_AFTER, &[]).expect("a primary, a replica and Sentinels"))
}

/// The server that the tests share.
pub(crate) fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(|| start(&[])).as_ref()
}

/// The cluster that the tests share.
pub(crate) fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    CLUSTER.get_or_init(|| start_cluster(&[])).as_ref()
}

/// A store without records, on the server that the tests share.
pub(crate) fn shared() -> Option<RedisStore> {
    server().map(on)
}

/// A store without records, on a server.
pub(crate) fn on(server: &Server) -> RedisStore {
    at(&server.url())
}

/// A store without records, on the server at this address.
pub(crate) fn at(url: &str) -> RedisStore {
    own(RedisStore::single(Client::open(url).expect("an address")))
}

/// A store without records, on a cluster.
pub(crate) fn on_cluster(cluster: &Cluster) -> RedisStore {
    own(RedisStore::cluster(ClusterClientBuilder::new(cluster.urls())).expect("a cluster"))
}

fn own(store: RedisStore) -> RedisStore {
    store.timeout(PATIENCE).prefix(&format!("test:{}", Uuid::new_v4())).expect("a prefix")
}
