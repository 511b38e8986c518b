//! The scripts are called by their hash, and sent with their text to a server that does not have them.

use std::time::{Duration, SystemTime};

use scratch_redis::Server;
use tokio::time::Instant;
use tonic_idempotency::store::{KeyState, Store as _};

use crate::{
    record::{HOUR, acquire, again, assert_replayed, claim, complete, state},
    servers::{on, start},
};

/// The number of calls of a command, of a server that counts them.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    line.and_then(|line| line.split_once("calls=")?.1.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn every_operation_goes_on_after_the_scripts_were_flushed() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server);
    let flush = || assert!(server.ask(&["SCRIPT", "FLUSH"]).contains("OK"));
    let [first, second, third] = [claim(), claim(), claim()];
    acquire(&store, &first).await;
    flush();
    acquire(&store, &second).await;
    acquire(&store, &third).await;
    flush();
    store.extend(&first.reservation, HOUR).await.expect("an extension");
    flush();
    complete(&store, &first, "first").await;
    flush();
    store.release(&second.reservation).await.expect("a release");
    flush();
    store.abandon(&third.reservation).await.expect("an abandonment");
    flush();
    assert_eq!(state(&store, &first).await, KeyState::Completed);
    assert_eq!(state(&store, &second).await, KeyState::Absent);
    assert_eq!(state(&store, &third).await, KeyState::Unknown);
    assert_replayed(&store, &first, "first").await;
}

#[tokio::test]
async fn a_script_is_sent_with_its_text_once() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server);
    for _ in 0..10 {
        acquire(&store, &claim()).await;
    }
    // The first claim of a store is sent twice: it does not know the server's clock.
    assert_eq!((calls(&server, "eval"), calls(&server, "evalsha")), (1, 11));
}

/// If the clock jumps, leases are renewed by it.
#[tokio::test]
async fn the_answer_to_a_claim_tells_the_servers_clock() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server);
    acquire(&store, &claim()).await;
    let shown = store.server_clock().expect("no cluster").shows_at(Instant::now()).expect("an answer");
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    assert!(now.abs_diff(shown) < Duration::from_secs(60), "{shown:?} at {now:?}");
}

/// One round trip, and not one for each part of a transition.
#[tokio::test]
async fn an_operation_is_one_command_of_the_client() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server);
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, "first").await;
    let before = calls(&server, "evalsha");
    assert_replayed(&store, &first, "first").await;
    acquire(&store, &claim()).await;
    assert!(store.claim(&again(&first)).await.is_ok());
    assert_eq!(calls(&server, "evalsha"), before + 3);
}
