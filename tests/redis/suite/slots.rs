//! The names of records in a cluster: each is one slot, and they spread over all primaries, whatever users are called.

use tonic_idempotency::{Caller, KeyId, Scope, UserId, store::Reservation};
use uuid::Uuid;

use crate::{
    record::{acquire, assert_replayed, claim, complete},
    servers::{cluster, on_cluster},
};

#[tokio::test]
async fn records_are_spread_over_all_primaries() {
    let Some(cluster) = cluster() else { return };
    let store = on_cluster(cluster);
    for _ in 0..100 {
        acquire(&store, &claim()).await;
    }
    let primaries = cluster.nodes().iter().filter(|node| node.ask(&["ROLE"]).starts_with("master"));
    let sizes: Vec<u64> = primaries.map(|node| node.ask(&["DBSIZE"]).trim().parse().expect("a number")).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|records| *records > 0), "{sizes:?}");
}

/// Users whose names have braces would share a slot, or a record, if their names were in those of records as they are.
#[tokio::test]
async fn users_with_hostile_names_have_records_of_their_own() {
    let Some(store) = cluster().map(on_cluster) else { return };
    let names =
        ["{", "}", "{}", "{a}", "a}{b", "{a}:b", "a:{b}", "*", "?", "[a]", "a\r\nFLUSHALL\r\n", "\u{0}", "😀{", " "];
    let key = KeyId::new(Uuid::new_v4());
    let mut claims = Vec::new();
    for name in names {
        let Ok(user) = UserId::from_text(name) else { continue };
        let alone = Caller::new(user.clone());
        let scoped = Scope::from_text("{x}").map(|scope| Caller::new(user).in_scope(scope)).expect("a scope");
        for caller in [alone, scoped] {
            let claim =
                tonic_idempotency::store::Claim { reservation: Reservation::new(caller.owner(), key), ..claim() };
            acquire(&store, &claim).await;
            claims.push(claim);
        }
    }
    assert!(claims.len() > 20, "{}", claims.len());
    complete(&store, &claims[0], "first").await;
    complete(&store, &claims[1], "second").await;
    assert_replayed(&store, &claims[0], "first").await;
    assert_replayed(&store, &claims[1], "second").await;
}
