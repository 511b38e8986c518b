//! The permissions of the page are enough, and no more than needed is granted.

use scratch_redis::Server;
use tonic_idempotency::store::{AbandonedQuery, KeyState, Store as _, StoreErrorKind};
use tonic_idempotency_redis::{RedisStore, redis::cluster::ClusterClientBuilder};

use crate::{
    failover::move_slot,
    record::{HOUR, acquire, assert_replayed, claim, complete, name_of, state},
    servers::{PATIENCE, at, cluster, server, start, start_cluster},
};

const PAGE: &str = include_str!("../../../docs/redis.md");

/// Has a server make the user of the page.
fn make_user(server: &Server) {
    let line = PAGE.lines().find(|line| line.starts_with("ACL SETUSER")).expect("the page makes a user");
    let words: Vec<_> = line.split_whitespace().collect();
    let answer = server.ask(&words);
    assert!(answer.contains("OK"), "{answer}");
}

fn url(server: &Server) -> String {
    format!("redis://idempotency:password@{}/", server.address())
}

#[tokio::test]
async fn those_of_the_page_are_enough_for_every_operation() {
    let Some(server) = start(&[]) else { return };
    make_user(&server);
    let store = at(&url(&server)).prefix("idempotency").expect("a prefix");
    store.verify().await.expect("the server is set up");
    let [first, second, third] = [claim(), claim(), claim()];
    for claim in [&first, &second, &third] {
        acquire(&store, claim).await;
    }
    store.extend(&first.reservation, HOUR).await.expect("a renewal");
    complete(&store, &first, "first").await;
    assert_replayed(&store, &first, "first").await;
    store.release(&second.reservation).await.expect("a release");
    store.abandon(&third.reservation).await.expect("an abandonment");
    assert_eq!(state(&store, &third).await, KeyState::Unknown);
    let search =
        AbandonedQuery { procedures: vec![third.procedure.clone()], lookback: None, max_attempts: 9, batch: 9 };
    assert_eq!(store.abandoned(&search).await.expect("a search").len(), 1);
}

/// Records of another prefix are another service's.
#[tokio::test]
async fn those_of_the_page_reach_no_other_names() {
    let Some(server) = start(&[]) else { return };
    make_user(&server);
    for prefix in ["other", "idempotency:eu", "idempotency2"] {
        let store = at(&url(&server)).prefix(prefix).expect("a prefix");
        let error = store.claim(&claim()).await.expect_err("not permitted");
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{prefix}: {error:?}");
    }
}

/// A key whose slot is half moved is looked up at the new node, after an `ASKING` that needs a right of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_of_the_page_are_enough_while_a_slot_moves() {
    let Some(cluster) = start_cluster(&[]) else { return };
    for node in cluster.nodes() {
        make_user(node);
    }
    let urls = cluster.nodes().iter().map(url);
    let store = RedisStore::cluster(ClusterClientBuilder::new(urls)).expect("addresses").timeout(PATIENCE);
    store.verify().await.expect("the cluster is set up");
    let first = claim();
    move_slot(&cluster, &name_of(&first, "idempotency"));
    acquire(&store, &first).await;
    complete(&store, &first, "first").await;
    assert_replayed(&store, &first, "first").await;
    assert_eq!(state(&store, &first).await, KeyState::Completed);
}

/// A client that may not ask for the map of slots is set up wrongly: that is no outage.
#[tokio::test]
async fn a_right_that_is_missing_is_no_outage() {
    let (Some(cluster), Some(server)) = (cluster(), server()) else { return };
    for (command, node) in [("cluster|slots", &cluster.nodes()[0]), ("info", server), ("evalsha", server)] {
        let user = format!("without-{}", command.replace('|', "-"));
        let answer = node.ask(&["ACL", "SETUSER", &user, "on", ">password", "~*", "+@all", &format!("-{command}")]);
        assert!(answer.contains("OK"), "{answer}");
        let url = format!("redis://{user}:password@{}/", node.address());
        let store = match command {
            "cluster|slots" => RedisStore::cluster(ClusterClientBuilder::new([url])).expect("an address"),
            _ => at(&url),
        };
        let error = store.timeout(PATIENCE).claim(&claim()).await.expect_err("not permitted");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Refused, false), "{command}: {error:?}");
    }
}
