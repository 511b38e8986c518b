//! The permissions of the page are enough, and no more than needed is granted.

use scratch_redis::{Cluster, Server};
use tonic_idempotency::store::{AbandonedQuery, KeyState, Store as _, StoreErrorKind};
use tonic_idempotency_redis::{RedisStore, redis::cluster::ClusterClientBuilder};

use crate::{
    record::{HOUR, acquire, assert_replayed, claim, complete, state},
    servers::{DOWN_AFTER, PATIENCE, are_missing, at, cluster, server},
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
    if are_missing() {
        return;
    }
    let server = Server::start(&[]).expect("a server");
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
    if are_missing() {
        return;
    }
    let server = Server::start(&[]).expect("a server");
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
    if are_missing() {
        return;
    }
    let cluster = Cluster::start(DOWN_AFTER, &[]).expect("a cluster");
    for node in cluster.nodes() {
        make_user(node);
    }
    let urls = cluster.nodes().iter().map(url);
    let store = RedisStore::cluster(ClusterClientBuilder::new(urls)).expect("addresses").timeout(PATIENCE);
    store.verify().await.expect("the cluster is set up");
    let first = claim();
    let (owner, key) = (first.reservation.owner, first.reservation.key);
    let name = format!("idempotency:{{{}:{}}}", owner.as_uuid(), key.as_uuid());
    let slot = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", &name]).trim().to_owned();
    let number: u16 = slot.parse().expect("a slot");
    let (from, _) = cluster.pair(number).expect("a pair");
    let (to, _) = cluster.pair((number + 8192) % 16384).expect("another pair");
    let id = |node: &Server| node.ask(&["CLUSTER", "MYID"]).trim().to_owned();
    assert!(to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]).contains("OK"));
    assert!(from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]).contains("OK"));
    acquire(&store, &first).await;
    complete(&store, &first, "first").await;
    assert_replayed(&store, &first, "first").await;
    assert_eq!(state(&store, &first).await, KeyState::Completed);
}

/// A client that may not ask for the map of slots is set up wrongly: that is no outage.
#[tokio::test]
async fn a_right_that_is_missing_is_no_outage() {
    if are_missing() {
        return;
    }
    for (command, node) in [("cluster|slots", &cluster().nodes()[0]), ("info", server()), ("evalsha", server())] {
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
