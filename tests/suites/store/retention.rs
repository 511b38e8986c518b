//! How long a completed record lives.

use crate::prelude::*;

/// Seconds until the only record expires.
async fn left(owner: &Client) -> f64 {
    value(owner, "SELECT extract(epoch FROM expires - now())::float8 FROM tenant.idempotency_keys").await
}

async fn expires(owner: &Client) -> String {
    value(owner, "SELECT expires::text FROM tenant.idempotency_keys").await
}

#[tokio::test]
async fn counts_from_the_completion() {
    let message = || completion("done").response;
    for (lease, claimed, completed, response) in [
        // As set when the key was claimed.
        (HOUR, 24 * HOUR, 24 * HOUR, message()),
        // Changed by the completion.
        (HOUR, HOUR, 2 * HOUR, message()),
        (HOUR, 2 * HOUR, HOUR, message()),
        (HOUR, 2 * HOUR, HOUR, StoredResponse::Error(b"final".as_slice().into())),
        // Shorter than the lease: the reservation had to last that long.
        (HOUR, HOUR / 60, HOUR / 60, message()),
    ] {
        let (database, owner) = Database::with_owner().await;
        let store = database.store();
        let claim = Claim { lease, retention: claimed, ..new_claim() };
        acquire(&store, &claim).await;
        let reserved = left(&owner).await;
        assert!(
            reserved > lease.max(claimed).as_secs_f64() - 30.0,
            "a reservation lasts at least its lease: {reserved}"
        );

        let completion = Completion { retention: completed, response, ..completion("done") };
        store.complete(&claim.reservation, &completion).await.expect("the store answers");
        let (left, expected) = (left(&owner).await, completed.as_secs_f64());
        assert!((left - expected).abs() < expected / 100.0 + 30.0, "{completion:?}: {left} s left of {expected} s");
    }
}

/// A handler may run for longer than the retention.
#[tokio::test]
async fn is_no_shorter_than_a_lease_that_is_renewed() {
    let (database, owner) = Database::with_owner().await;
    let (store, call) = (database.store(), new_claim());
    acquire(&store, &call).await;
    extend(&store, &call, 2 * HOUR).await;
    assert!(left(&owner).await > (2 * HOUR).as_secs_f64() - 30.0);
    // By a further attempt of its claim.
    acquire(&store, &Claim { lease: 3 * HOUR, ..call }).await;
    assert!(left(&owner).await > (3 * HOUR).as_secs_f64() - 30.0);
}

/// `expires` is indexed: an update of it costs an entry in every index.
#[tokio::test]
async fn does_not_update_the_expiry_if_it_is_about_right() {
    let (database, owner) = Database::with_owner().await;
    let store = database.store();
    let claim = Claim { retention: 24 * HOUR, ..new_claim() };
    acquire(&store, &claim).await;
    let before = expires(&owner).await;
    let completion = Completion { retention: 24 * HOUR, ..completion("done") };
    store.complete(&claim.reservation, &completion).await.expect("the store answers");
    assert_eq!(expires(&owner).await, before);
    assert!(Duration::from_secs_f64(left(&owner).await) <= 24 * HOUR);
}

/// An operator may keep a record for ever by an update of the table.
#[tokio::test]
async fn of_an_infinite_record_is_long_and_the_record_is_replayed() {
    let (database, owner) = Database::with_owner().await;
    let store = database.store();
    let first = new_claim();
    complete(&store, &first, &completion("done")).await;
    execute(&owner, "UPDATE tenant.idempotency_keys SET expires = 'infinity'").await;
    let replay = replay_of(&store, &first).await;
    assert!(replay.expires_in > 24 * 365 * HOUR, "{:?}", replay.expires_in);
}
