//! The problems that `verify`, and the first claim, report of servers that are set up wrongly.

use std::{error::Error as _, time::Duration};

use tokio::time::Instant;
use tonic_idempotency::store::{ClaimOutcome, Store as _, StoreErrorKind};
use tonic_idempotency_redis::{
    Durability, RedisStore, SetupProblem, VerifyError, redis::cluster::ClusterClientBuilder,
};

use crate::{
    record::{acquire, claim},
    scripts::calls,
    servers::{DOWN_AFTER, cluster, on, on_cluster, start, start_cluster, watched},
};

const DOWN_AFTER_TIME: Duration = Duration::from_millis(DOWN_AFTER as u64);

async fn problems(store: &RedisStore) -> Vec<SetupProblem> {
    match store.verify().await {
        Ok(()) => Vec::new(),
        Err(VerifyError::Setup(problems)) => problems,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn servers_with_their_defaults_are_right() {
    let (Some(server), Some(cluster)) = (start(&[]), cluster()) else { return };
    assert_eq!(problems(&on(&server)).await, []);
    let store = on_cluster(cluster);
    assert_eq!(problems(&store).await, []);
    assert_eq!(problems(&store.durability(Durability::replicas(1))).await, []);
}

#[tokio::test]
async fn a_server_that_evicts_is_wrong() {
    let Some(server) = start(&["maxmemory-policy allkeys-lru"]) else { return };
    let found = problems(&on(&server)).await;
    assert!(matches!(&found[..], [SetupProblem::Evicts { policy, .. }] if policy == "allkeys-lru"), "{found:?}");
    let text = on(&server).verify().await.expect_err("an error").to_string();
    assert!(text.contains("noeviction"), "{text}");
}

/// Even if `verify` is never called.
#[tokio::test]
async fn the_first_claim_refuses_a_server_that_evicts() {
    let Some(server) = start(&["maxmemory-policy volatile-lru"]) else { return };
    let store = on(&server);
    for store in [store.clone(), store.clone().prefix("another").expect("a prefix")] {
        let error = store.claim(&claim()).await.expect_err("it evicts");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Refused, false), "{error:?}");
        let text = error.source().expect("why").to_string();
        assert!(text.contains("volatile-lru") && text.contains("noeviction"), "{text}");
    }
    assert_eq!(server.ask(&["DBSIZE"]).trim(), "0");
    let set = |policy| server.ask(&["CONFIG", "SET", "maxmemory-policy", policy]);
    assert!(set("noeviction").contains("OK"));
    acquire(&store, &claim()).await;
    // It is asked once.
    let before = calls(&server, "info");
    acquire(&store, &claim()).await;
    assert_eq!(calls(&server, "info"), before + 1, "the question of this test itself");
    let verified = on(&server);
    verified.verify().await.expect("the server is set up");
    let before = calls(&server, "info");
    acquire(&verified, &claim()).await;
    assert_eq!(calls(&server, "info"), before + 1, "the question of this test itself");
}

/// Each primary is asked, and an unreachable one does not fail the claims of the others.
#[tokio::test]
async fn the_first_claim_refuses_a_cluster_of_which_a_primary_evicts() {
    let Some(cluster) = start_cluster(&["cluster-require-full-coverage no"]) else { return };
    let pairs = [0, 8000, 16000].map(|slot| cluster.pair(slot).expect("a pair"));
    let set = |policy| pairs[0].0.ask(&["CONFIG", "SET", "maxmemory-policy", policy]);
    set("allkeys-random");
    let store = on_cluster(&cluster);
    for _ in 0..10 {
        let error = store.claim(&claim()).await.expect_err("a primary evicts");
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error:?}");
    }
    set("noeviction");
    let (primary, replica) = pairs[2];
    replica.kill();
    primary.pause();
    // A claim of a slot whose primary answers: two thirds of the slots are the others'.
    let store = on_cluster(&cluster).timeout(4 * DOWN_AFTER_TIME);
    let mut acquired = 0;
    while acquired < 3 {
        let began = Instant::now();
        if let Ok(outcome) = store.claim(&claim()).await {
            assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
            assert!(began.elapsed() < 4 * DOWN_AFTER_TIME, "{:?}", began.elapsed());
            acquired += 1;
        }
    }
    primary.resume();
}

#[tokio::test]
async fn too_few_replicas_are_wrong_of_each_primary() {
    let Some(cluster) = cluster() else { return };
    let found = problems(&on_cluster(cluster).durability(Durability::replicas(2))).await;
    assert_eq!(found.len(), 3, "{found:?}");
    let is_lacking = |problem: &SetupProblem| matches!(problem, SetupProblem::TooFewReplicas { connected: 1, wanted: 2, server } if server.starts_with("127."));
    assert!(found.iter().all(is_lacking), "{found:?}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_not_a_server_of_its_own() {
    let Some(cluster) = cluster() else { return };
    let found = problems(&on(&cluster.nodes()[0])).await;
    assert!(matches!(&found[..], [SetupProblem::OtherTopology { in_cluster: true, .. }]), "{found:?}");
}

#[tokio::test]
async fn a_server_of_its_own_is_not_a_cluster() {
    let Some(watched) = watched() else { return };
    let [primary, _] = watched.servers();
    let store = RedisStore::cluster(ClusterClientBuilder::new([primary.url()])).expect("an address");
    let store = store.timeout(std::time::Duration::from_secs(2));
    assert!(store.verify().await.is_err());
}
