//! What `verify` says of servers that are set up wrongly.

use scratch_redis::Server;
use tonic_idempotency_redis::{
    Durability, RedisStore, SetupProblem, VerifyError, redis::cluster::ClusterClientBuilder,
};

use crate::servers::{are_missing, cluster, on, on_cluster, watched};

async fn problems(store: &RedisStore) -> Vec<SetupProblem> {
    match store.verify().await {
        Ok(()) => Vec::new(),
        Err(VerifyError::Setup(problems)) => problems,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn servers_with_their_defaults_are_right() {
    if are_missing() {
        return;
    }
    assert_eq!(problems(&on(&Server::start(&[]).expect("a server"))).await, []);
    let store = on_cluster(cluster());
    assert_eq!(problems(&store).await, []);
    assert_eq!(problems(&store.durability(Durability::replicas(1))).await, []);
}

#[tokio::test]
async fn a_server_that_evicts_is_wrong() {
    if are_missing() {
        return;
    }
    let server = Server::start(&["maxmemory-policy allkeys-lru"]).expect("a server");
    let found = problems(&on(&server)).await;
    assert!(matches!(&found[..], [SetupProblem::Evicts { policy, .. }] if policy == "allkeys-lru"), "{found:?}");
    let text = on(&server).verify().await.expect_err("an error").to_string();
    assert!(text.contains("noeviction"), "{text}");
}

#[tokio::test]
async fn too_few_replicas_are_wrong_of_each_primary() {
    if are_missing() {
        return;
    }
    let found = problems(&on_cluster(cluster()).durability(Durability::replicas(2))).await;
    assert_eq!(found.len(), 3, "{found:?}");
    let is_lacking = |problem: &SetupProblem| matches!(problem, SetupProblem::TooFewReplicas { connected: 1, wanted: 2, server } if server.starts_with("127."));
    assert!(found.iter().all(is_lacking), "{found:?}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_not_a_server_of_its_own() {
    if are_missing() {
        return;
    }
    let found = problems(&on(&cluster().nodes()[0])).await;
    assert!(matches!(&found[..], [SetupProblem::OtherTopology { in_cluster: true, .. }]), "{found:?}");
}

#[tokio::test]
async fn a_server_of_its_own_is_not_a_cluster() {
    if are_missing() {
        return;
    }
    let watched = watched();
    let [primary, _] = watched.servers();
    let store = RedisStore::cluster(ClusterClientBuilder::new([primary.url()])).expect("an address");
    let store = store.timeout(std::time::Duration::from_secs(2));
    assert!(store.verify().await.is_err());
}
