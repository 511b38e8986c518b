//! The search for reservations whose leases ended, over all servers.

use std::time::Duration;

use tonic_idempotency::store::{AbandonedQuery, Claim, Store as _};

use crate::{
    record::{acquire, claim, complete},
    servers::{cluster, on, on_cluster, start},
};

/// More than a server returns in one step.
const RECORDS: usize = 3000;

fn search(batch: u32) -> AbandonedQuery {
    AbandonedQuery { procedures: vec![claim().procedure], lookback: None, max_attempts: 3, batch }
}

#[tokio::test]
async fn finds_those_of_all_primaries_among_many_others() {
    let Some(store) = cluster().map(on_cluster) else { return };
    let mut expected = Vec::new();
    for number in 0..RECORDS {
        let left = number % 50 == 0;
        let claim = Claim { lease: if left { Duration::ZERO } else { claim().lease }, ..claim() };
        acquire(&store, &claim).await;
        if left {
            expected.push(claim.reservation.key);
        }
    }
    let found = store.abandoned(&search(1000)).await.expect("the store answers");
    assert_eq!(found.iter().map(|found| found.key).collect::<Vec<_>>(), expected);
    let oldest = store.abandoned(&search(7)).await.expect("the store answers");
    assert_eq!(oldest.iter().map(|found| found.key).collect::<Vec<_>>(), expected[..7]);
}

/// Names with a similar beginning, and those of other programs, do not belong to this store.
#[tokio::test]
async fn does_not_find_what_is_not_the_stores_own() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server).prefix("a").expect("a prefix");
    let others = [on(&server).prefix("a:b"), on(&server).prefix("aa"), on(&server).prefix("A")];
    for other in others {
        acquire(&other.expect("a prefix"), &Claim { lease: Duration::ZERO, ..claim() }).await;
    }
    server.ask(&["HSET", "a:{x:y}", "token", "1"]);
    server.ask(&["SET", "a:{b18d7a6c-0000-4000-8000-000000000000:b18d7a6c-0000-4000-8000-000000000001}", "1"]);
    let done = claim();
    acquire(&store, &done).await;
    complete(&store, &done, "done").await;
    assert_eq!(store.abandoned(&search(10)).await.expect("the store answers"), []);

    let own = Claim { lease: Duration::ZERO, ..claim() };
    acquire(&store, &own).await;
    let found = store.abandoned(&search(10)).await.expect("the store answers");
    assert_eq!(found.iter().map(|found| found.key).collect::<Vec<_>>(), [own.reservation.key]);
}
