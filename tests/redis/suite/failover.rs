//! Failovers: the store finds the new primary by itself, with the records that it has received.

use scratch_redis::{Cluster, Server};
use tonic_idempotency::store::{ClaimOutcome, Store as _};
use tonic_idempotency_redis::{
    Durability, RedisStore,
    redis::sentinel::{SentinelClient, SentinelServerType},
};

use crate::{
    record::{acquire, again, assert_replayed, claim, complete, name_of},
    servers::{PATIENCE, on_cluster, start_cluster, watched},
    until::until,
};

/// As many records are on every primary of a cluster.
const RECORDS: usize = 30;

/// Records calls and reserves keys, breaks a primary, and goes on.
async fn goes_on_after(store: RedisStore, break_primary: impl FnOnce(), is_back: impl AsyncFn() -> bool) {
    let replicated = store.clone().durability(Durability::replicas(1).within(PATIENCE));
    let mut calls = Vec::new();
    for _ in 0..RECORDS {
        let [done, running] = [claim(), claim()];
        for claim in [&done, &running] {
            acquire(&replicated, claim).await;
        }
        complete(&replicated, &done, "done").await;
        calls.push((done, running));
    }
    break_primary();
    until("there is a new primary", is_back).await;
    for (done, running) in &calls {
        assert_replayed(&store, done, "done").await;
        let outcome = store.claim(&again(running)).await.expect("an answer");
        assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
        complete(&store, running, "running").await;
        assert_replayed(&store, running, "running").await;
        acquire(&store, &claim()).await;
    }
}

fn is_primary(server: &Server) -> bool {
    server.ask(&["ROLE"]).starts_with("master")
}

/// Connections to a primary that has hung stay open, and say nothing.
const BREAKS: [fn(&Server); 2] = [Server::kill, Server::pause];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goes_on_with_sentinel_after_the_primary_was_killed_or_has_hung() {
    for break_server in BREAKS {
        let Some(watched) = watched() else { return };
        let [primary, replica] = watched.servers();
        let name = watched.name().to_owned();
        let client = SentinelClient::build(watched.urls(), name, None, SentinelServerType::Master).expect("addresses");
        let store = RedisStore::sentinel(client).timeout(PATIENCE);
        goes_on_after(store, || break_server(primary), async || is_primary(replica)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goes_on_in_a_cluster_after_a_primary_was_killed_or_has_hung() {
    for break_server in BREAKS {
        let Some(cluster) = start_cluster(&[]) else { return };
        let store = on_cluster(&cluster);
        let (primary, replica) = cluster.pair(0).expect("a pair");
        let is_back = async || {
            let others = cluster.nodes().iter().filter(|node| node.address() != primary.address());
            is_primary(replica)
                && others.into_iter().all(|node| node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
        };
        goes_on_after(store, || break_server(primary), is_back).await;
    }
}

/// A slot that moves to another primary takes its records along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finds_a_record_whose_slot_has_moved() {
    let Some(cluster) = start_cluster(&[]) else { return };
    let store = on_cluster(&cluster).prefix("moved").expect("a prefix");
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, "first").await;
    let name = name_of(&first, "moved");
    let Moving { slot, from, to } = move_slot(&cluster, &name);
    // Half way: a key that is not at its old primary is asked for at the new one.
    assert_replayed(&store, &first, "first").await;
    let port = to.address().port().to_string();
    assert!(from.ask(&["MIGRATE", "127.0.0.1", &port, &name, "0", "5000"]).contains("OK"));
    assert_replayed(&store, &first, "first").await;
    for node in [to, from] {
        assert!(node.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &id_of(to)]).contains("OK"));
    }
    assert_replayed(&store, &first, "first").await;
}

/// A slot, and the primaries that it moves between.
pub(crate) struct Moving<'a> {
    slot: String,
    from: &'a Server,
    to: &'a Server,
}

fn id_of(node: &Server) -> String {
    node.ask(&["CLUSTER", "MYID"]).trim().to_owned()
}

/// Begins to move the slot of this name.
pub(crate) fn move_slot<'a>(cluster: &'a Cluster, name: &str) -> Moving<'a> {
    let slot = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", name]).trim().to_owned();
    let number: u16 = slot.parse().expect("a slot");
    let (from, _) = cluster.pair(number).expect("a pair");
    let (to, _) = cluster.pair((number + 8192) % 16384).expect("another pair");
    assert!(to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id_of(from)]).contains("OK"));
    assert!(from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id_of(to)]).contains("OK"));
    Moving { slot, from, to }
}
