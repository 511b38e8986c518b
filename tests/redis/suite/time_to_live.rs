//! A record lives as long as it has to, and is then gone without a sweep.

use std::time::Duration;

use scratch_redis::Server;
use tonic_idempotency::store::{Claim, Completion, KeyState, Store as _};

use crate::{
    record::{HOUR, acquire, again, claim, complete, completion, state},
    servers::{on, start},
    until::until,
};

/// The time to live of the only record of a server.
fn time_to_live(server: &Server) -> Duration {
    let name = server.ask(&["KEYS", "*"]);
    let millis: i64 = server.ask(&["PTTL", name.trim()]).trim().parse().expect("a number");
    Duration::from_millis(millis.try_into().expect("a record with a time to live"))
}

fn assert_about(found: Duration, expected: Duration) {
    assert!(found <= expected && found > expected - HOUR / 2, "{found:?} for {expected:?}");
}

#[tokio::test]
async fn a_record_has_a_time_to_live_in_each_of_its_states() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server);
    let first = Claim { lease: HOUR, retention: 4 * HOUR, ..claim() };
    acquire(&store, &first).await;
    assert_about(time_to_live(&server), 4 * HOUR);
    store.extend(&first.reservation, 2 * HOUR).await.expect("an extension");
    assert_about(time_to_live(&server), 4 * HOUR);
    store.extend(&first.reservation, 6 * HOUR).await.expect("an extension");
    assert_about(time_to_live(&server), 6 * HOUR);
    store.abandon(&first.reservation).await.expect("an abandonment");
    assert_about(time_to_live(&server), 6 * HOUR);
    store
        .complete(&first.reservation, &Completion { retention: 2 * HOUR, ..completion("first") })
        .await
        .expect("an end");
    assert_about(time_to_live(&server), 2 * HOUR);
}

/// A lease that is longer than the retention is not cut short.
#[tokio::test]
async fn a_reservation_lives_as_long_as_its_lease() {
    let Some(server) = start(&[]) else { return };
    acquire(&on(&server), &Claim { lease: 3 * HOUR, retention: HOUR, ..claim() }).await;
    assert_about(time_to_live(&server), 3 * HOUR);
}

#[tokio::test]
async fn nothing_is_left_of_records_whose_time_has_passed() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server);
    let short = Duration::from_millis(300);
    let [reserved, recorded, kept] =
        [Claim { lease: short, retention: short, ..claim() }, claim(), Claim { lease: Duration::ZERO, ..claim() }];
    acquire(&store, &reserved).await;
    acquire(&store, &recorded).await;
    let completion = Completion { retention: short, ..completion("recorded") };
    store.complete(&recorded.reservation, &completion).await.expect("a completion");
    acquire(&store, &kept).await;
    until("two of three records are gone", async || server.ask(&["DBSIZE"]).trim() == "1").await;
    assert_eq!(state(&store, &reserved).await, KeyState::Absent);
    assert_eq!(state(&store, &kept).await, KeyState::Unknown);
    acquire(&store, &again(&recorded)).await;
    complete(&store, &kept, "late, and nobody took it over").await;
}

/// The longest times are whole numbers in Lua.
#[tokio::test]
async fn a_time_without_end_is_a_long_one() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server);
    let first = Claim { lease: Duration::MAX, retention: Duration::MAX, ..claim() };
    acquire(&store, &first).await;
    assert_eq!(state(&store, &first).await, KeyState::Running);
    assert!(time_to_live(&server) > Duration::from_secs(99 * 365 * 24 * 60 * 60));
}
