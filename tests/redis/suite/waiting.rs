//! `Durability::replicas`: nothing counts as written before it has reached the replicas.

use std::time::Duration;

use tokio::time::Instant;
use tonic_idempotency::{
    policy::LeasePolicy,
    store::{Claim, ClaimOutcome, KeyState, Store as _, StoreErrorKind},
};
use tonic_idempotency_redis::{Durability, RedisStore};

use crate::{
    record::{acquire, again, assert_replayed, claim, complete, completion, state},
    scripts::calls,
    servers::{PATIENCE, at, watched},
};

const SHORT: Duration = Duration::from_millis(100);

fn waiting(url: &str, within: Duration) -> RedisStore {
    at(url).prefix("waiting").expect("a prefix").durability(Durability::replicas(1).within(within))
}

#[tokio::test]
async fn a_claim_is_not_acquired_before_a_replica_has_it() {
    let Some(watched) = watched() else { return };
    let [primary, replica] = watched.servers();
    let store = waiting(&primary.url(), SHORT);
    replica.pause();
    let first = claim();
    let error = store.claim(&first).await.expect_err("no replica has it");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Overloaded, true), "{error:?}");
    // No policy lets the call run unprotected.
    assert!(!error.kind().is_unavailable());
    // A second attempt is as strict, also on a connection that has written nothing itself.
    let error = waiting(&primary.url(), SHORT).claim(&first).await.expect_err("no replica has it");
    assert_eq!(error.kind(), StoreErrorKind::Overloaded);

    replica.resume();
    let patient = waiting(&primary.url(), PATIENCE);
    acquire(&patient, &first).await;
    let outcome = store.claim(&again(&first)).await.expect("an answer");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

#[tokio::test]
async fn an_outcome_is_not_recorded_before_a_replica_has_it() {
    let Some(watched) = watched() else { return };
    let [primary, replica] = watched.servers();
    let (store, patient) = (waiting(&primary.url(), SHORT), waiting(&primary.url(), PATIENCE));
    let [first, second] = [claim(), claim()];
    acquire(&patient, &first).await;
    acquire(&patient, &second).await;

    replica.pause();
    let error = store.complete(&first.reservation, &completion("first")).await.expect_err("no replica has it");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Overloaded, true), "{error:?}");
    let other = waiting(&primary.url(), SHORT);
    assert!(other.complete(&first.reservation, &completion("first")).await.is_err(), "on another connection");
    assert!(store.abandon(&second.reservation).await.is_err());
    assert!(other.abandon(&second.reservation).await.is_err(), "on another connection");

    replica.resume();
    complete(&patient, &first, "first").await;
    assert_replayed(&patient, &first, "first").await;
    patient.abandon(&second.reservation).await.expect("an abandonment");
    assert_eq!(state(&patient, &second).await, KeyState::Unknown);
}

/// `WAIT` counts from the last write of its own connection, by its documentation. So a repeated attempt, which finds what an earlier one
/// has written on another connection, writes itself.
#[tokio::test]
async fn a_repeated_attempt_writes_before_it_waits() {
    let Some(watched) = watched() else { return };
    let [primary, _] = watched.servers();
    let (waiting, trusting) = (waiting(&primary.url(), PATIENCE), at(&primary.url()));
    // A repeated claim renews its lease, twice on a store that waits. A recorded outcome is written again only on a store that waits.
    for (store, claimed, completed) in [(waiting, 2, 1), (trusting, 1, 0)] {
        let first = claim();
        acquire(&store, &first).await;
        let before = calls(primary, "hset");
        acquire(&store, &first).await;
        assert_eq!(calls(primary, "hset"), before + claimed);
        complete(&store, &first, "first").await;
        let before = calls(primary, "hset");
        complete(&store, &first, "first").await;
        assert_eq!(calls(primary, "hset"), before + completed);
    }
}

/// Even while the replicas are slow, a call that writes nothing does not wait for the writes of others.
#[tokio::test]
async fn what_has_written_nothing_does_not_wait() {
    let Some(watched) = watched() else { return };
    let [primary, replica] = watched.servers();
    let store = waiting(&primary.url(), PATIENCE);
    let before_all = claim();
    acquire(&store, &before_all).await;
    complete(&store, &before_all, "the server has the scripts now").await;
    let before = calls(primary, "wait");
    let [done, running, ended] = [claim(), claim(), Claim { lease: Duration::ZERO, ..claim() }];
    for claim in [&done, &running, &ended] {
        acquire(&store, claim).await;
    }
    complete(&store, &done, "done").await;
    // One for each of the four that have written.
    assert_eq!(calls(primary, "wait"), before + 4);
    replica.pause();
    let trusting = at(&primary.url()).prefix("waiting").expect("a prefix");
    acquire(&trusting, &claim()).await;

    let began = Instant::now();
    assert_replayed(&store, &done, "done").await;
    let outcome = store.claim(&again(&running)).await.expect("an answer");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    let other = Claim { procedure: "/shop.v1.Shop/Other".to_owned(), ..again(&running) };
    let outcome = store.claim(&other).await.expect("an answer");
    assert!(matches!(outcome, ClaimOutcome::Mismatch(_)), "{outcome:?}");
    let refused = Claim { on_lease_ended: LeasePolicy::Refuse, ..again(&ended) };
    let outcome = store.claim(&refused).await.expect("an answer");
    assert!(matches!(outcome, ClaimOutcome::OutcomeUnknown), "{outcome:?}");
    assert_eq!(state(&store, &done).await, KeyState::Completed);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    assert_eq!(calls(primary, "wait"), before + 4);
    replica.resume();
}

/// Renewals and releases do not wait: nothing unsafe follows if they are lost.
#[tokio::test]
async fn renewals_and_releases_do_not_wait() {
    let Some(watched) = watched() else { return };
    let [primary, replica] = watched.servers();
    let store = waiting(&primary.url(), PATIENCE);
    let first = claim();
    acquire(&store, &first).await;
    replica.pause();
    store.extend(&first.reservation, SHORT).await.expect("a renewal");
    store.release(&first.reservation).await.expect("a release");
    assert_eq!(state(&store, &first).await, KeyState::Absent);
    replica.resume();
}
