//! Concurrent claims of one key.

use tokio_postgres::Transaction;

use crate::prelude::*;

/// Inserts a row for the claim's key, waits until the claim waits for that row, and ends the transaction with `end`.
async fn meets_an_uncommitted_row(
    response: Option<&[u8]>,
    end: impl AsyncFnOnce(Transaction<'_>),
) -> Result<ClaimOutcome, StoreError> {
    let database = Database::new().await;
    let (observer, mut owner) = (database.owner().await, database.owner().await);
    let claim = claim(Uuid::new_v4(), Uuid::new_v4());
    let transaction = owner.transaction().await.expect("a transaction");
    let sql = "INSERT INTO tenant.idempotency_keys
                 (idempotency_key, user_id, procedure, request_hash, response_bytes, token, lease_expires, expires)
             VALUES ($1, $2, $3, $4, $5, gen_random_uuid(), now() + interval '1 hour', now() + interval '1 hour')";
    transaction
        .execute(
            sql,
            &[
                claim.reservation.key.as_uuid(),
                claim.reservation.owner.as_uuid(),
                &PROCEDURE,
                &HASH.as_slice(),
                &response,
            ],
        )
        .await
        .expect("the row");
    let store = database.store();
    let claiming = tokio::spawn(async move { store.claim(&claim).await });
    until_held(&observer).await;
    end(transaction).await;
    claiming.await.expect("the claim does not panic")
}

async fn commit(transaction: Transaction<'_>) {
    transaction.commit().await.expect("the commit");
}

#[tokio::test]
async fn replays_a_row_that_appears_between_two_snapshots() {
    match meets_an_uncommitted_row(Some(b"first"), commit).await.expect("the store answers") {
        ClaimOutcome::Replay(replay) => assert_eq!(replay.response, StoredResponse::message("first")),
        other => panic!("expected a replay, got {other:?}"),
    }
}

#[tokio::test]
async fn finds_a_reservation_that_appears_between_two_snapshots() {
    let outcome = meets_an_uncommitted_row(None, commit).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

#[tokio::test]
async fn acquires_a_key_whose_row_is_rolled_back() {
    let outcome = meets_an_uncommitted_row(Some(b"never"), async |transaction: Transaction<'_>| {
        transaction.rollback().await.expect("the rollback");
    });
    let outcome = outcome.await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

/// Claims one key many times at once. Returns how many claims acquire it, and how many find it in flight.
async fn claim_at_once(store: &PostgresStore, claim: &Claim) -> (usize, usize) {
    let mut claims = JoinSet::new();
    for _ in 0..24 {
        let (store, claim) = (store.clone(), again(claim));
        claims.spawn(async move { store.claim(&claim).await.expect("the store answers") });
    }
    let outcomes = claims.join_all().await;
    let acquired = |outcome: &&_| matches!(outcome, ClaimOutcome::Acquired | ClaimOutcome::TakenOver);
    let in_flight = outcomes.iter().filter(|outcome| matches!(outcome, ClaimOutcome::InFlight { .. })).count();
    (outcomes.iter().filter(acquired).count(), in_flight)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_takes_over_an_expired_record() {
    let (database, store) = Database::with_store().await;
    let claim = claim(Uuid::new_v4(), Uuid::new_v4());
    complete(&store, &claim, &completion("old")).await;
    let owner = database.owner().await;
    let sql = "UPDATE tenant.idempotency_keys SET expires = now() - interval '1 second'";
    owner.batch_execute(sql).await.expect("time");
    assert_eq!(claim_at_once(&store, &claim).await, (1, 23));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_takes_over_an_ended_lease() {
    let (_database, store) = Database::with_store().await;
    let claim = claim(Uuid::new_v4(), Uuid::new_v4());
    acquire(&store, &Claim { lease: Duration::ZERO, ..claim.clone() }).await;
    assert_eq!(claim_at_once(&store, &Claim { lease: HOUR, ..claim }).await, (1, 23));
}

/// A role or a database may have another default than READ COMMITTED.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_acquires_under_every_isolation_level() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let database = Database::new().await;
        let pool = database.pool_with(8, &format!("SET default_transaction_isolation = '{level}'"));
        let store = patient(pool);
        for _ in 0..8 {
            let claim = claim(Uuid::new_v4(), Uuid::new_v4());
            assert_eq!(claim_at_once(&store, &claim).await, (1, 23), "{level}");
        }
    }
}

/// Two statements of a function: a change between them is as if it had been made before or after both.
#[tokio::test]
async fn decides_as_in_one_step_on_a_row_that_comes_or_goes_meanwhile() {
    for (function, place, held) in [
        ("claim", "IF state IN ('acquired'", format!("{HOLD} IF state IN ('acquired'")),
        ("commit", "v_foreign_before := ", format!("{HOLD} v_foreign_before := ")),
        ("complete", "SELECT x.* INTO k", format!("{HOLD} SELECT x.* INTO k")),
        ("release", "released := FOUND;", format!("released := FOUND; {HOLD}")),
    ] {
        let (database, owner) = Database::with_owner().await;
        let (store, call) = (database.store().max_batch(1), claim(Uuid::new_v4(), Uuid::new_v4()));
        match function {
            "claim" => acquire(&store, &call).await,
            "commit" => complete(&store, &call, &Completion { retention: Duration::ZERO, ..completion("old") }).await,
            _ => {}
        }
        hold_at(&owner, &format!("{function}_row"), place, &held).await;
        let release = async || store.release(&call.reservation).await.expect("the store answers");
        let step = async || match function {
            "claim" => acquire(&store, &call).await,
            "commit" => crate::record::commit(&store, &again(&call), completion("done")).await,
            "complete" => {
                assert_ne!(
                    store.complete(&call.reservation, &completion("done")).await.expect("the store answers"),
                    CompleteOutcome::Fenced
                )
            }
            // Again, if it has come before the claim.
            _ => {
                let _ = release().await == ReleaseOutcome::Released || release().await == ReleaseOutcome::Released;
            }
        };
        // By a store of its own, which knows of no claim that may come late.
        let meanwhile = async {
            until_held(&owner).await;
            let other = database.store().max_batch(1);
            match function {
                "claim" => assert_eq!(
                    other.release(&call.reservation).await.expect("the store answers"),
                    ReleaseOutcome::Released
                ),
                "commit" => assert_eq!(other.sweep(8).await.expect("the store answers"), 1),
                _ => acquire(&other, &call).await,
            }
            let_go(&owner).await;
        };
        tokio::join!(step(), meanwhile);
        match function {
            "claim" => {
                let extended = store.extend(&call.reservation, HOUR).await.expect("the store answers");
                assert_eq!(extended, ExtendOutcome::Extended, "it holds the key");
            }
            "release" => acquire(&store, &again(&Claim { on_lease_ended: LeasePolicy::Refuse, ..call })).await,
            _ => assert_eq!(replay_of(&store, &call).await.response, StoredResponse::message("done")),
        }
    }
}
