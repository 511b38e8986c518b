//! Concurrent claims of one key.

use tokio_postgres::Transaction;

use crate::prelude::*;

/// Waits until some backend of this database waits for a lock.
async fn until_a_backend_waits(owner: &Client) {
    until("the claim meets the uncommitted row", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: i64 = owner.query_one(sql, &[]).await.expect("the activity").get(0);
        waiting > 0
    })
    .await;
}

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
    until_a_backend_waits(&observer).await;
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

/// Two statements of a function: what happens between them is as if it had happened before or after both.
#[tokio::test]
async fn decides_as_in_one_step_on_a_row_that_comes_or_goes_meanwhile() {
    let pause = "PERFORM pg_advisory_xact_lock(42);";
    for (function, place, paused) in [
        ("claim", "IF state IN (''acquired''", format!("{pause} IF state IN (''acquired''")),
        ("commit", "v_foreign_before := ", format!("{pause} v_foreign_before := ")),
        ("complete", "SELECT x.* INTO k", format!("{pause} SELECT x.* INTO k")),
        ("release", "released := FOUND;", format!("released := FOUND; {pause}")),
    ] {
        let (database, owner) = Database::with_owner().await;
        let (other, call) = (database.store().max_batch(1), claim(Uuid::new_v4(), Uuid::new_v4()));
        match function {
            "claim" => acquire(&other, &call).await,
            "commit" => complete(&other, &call, &Completion { retention: Duration::ZERO, ..completion("old") }).await,
            _ => {}
        }
        let replace = format!(
            "SELECT pg_advisory_lock(42);
             DO $$ DECLARE
                 v_function CONSTANT text := pg_get_functiondef('tenant.idempotency_{function}_row'::regproc);
             BEGIN
                 ASSERT position('{place}' IN v_function) > 0;
                 EXECUTE replace(v_function, '{place}', '{paused}');
             END $$"
        );
        owner.batch_execute(&replace).await.expect("the function is replaced");
        let (reservation, store) = (call.reservation, database.store().max_batch(1));
        let claim_again = call.clone();
        let one_step = tokio::spawn(async move {
            match function {
                "claim" => acquire(&store, &claim_again).await,
                "commit" => crate::record::commit(&store, &again(&claim_again), completion("done")).await,
                "complete" => drop(store.complete(&reservation, &completion("done")).await.expect("the store answers")),
                _ => return store.release(&reservation).await.expect("the store answers") == ReleaseOutcome::Released,
            }
            true
        });
        until("it is between its statements", async || {
            count(&owner, "pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted").await > 0
        })
        .await;
        let release = async || other.release(&reservation).await.expect("the store answers");
        match function {
            "claim" => assert_eq!(release().await, ReleaseOutcome::Released),
            "commit" => assert_eq!(other.sweep(8).await.expect("the store answers"), 1),
            _ => acquire(&other, &call).await,
        }
        owner.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("it goes on");
        let came_last = one_step.await.expect("it ends");
        match function {
            "claim" => {
                let extended = other.extend(&reservation, HOUR).await.expect("the store answers");
                assert_eq!(extended, ExtendOutcome::Extended, "it holds the key");
            }
            "commit" | "complete" => {
                assert_eq!(replay_of(&other, &call).await.response, StoredResponse::message("done"))
            }
            _ => {
                if !came_last {
                    assert_eq!(release().await, ReleaseOutcome::Released);
                }
                acquire(&other, &again(&Claim { on_lease_ended: LeasePolicy::Refuse, ..call })).await;
            }
        }
    }
}
