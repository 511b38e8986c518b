//! Concurrent claims of one key.

use crate::prelude::*;

/// Claims a key of which a transaction has inserted a row, and ends the transaction when the claim waits for it.
async fn claim_beside_an_uncommitted_row(response: Option<&str>, end: &str) -> ClaimOutcome {
    let (database, owner) = Database::with_owner().await;
    let (observer, store, claim) = (database.owner().await, database.store(), new_claim());
    execute(&owner, "BEGIN").await;
    insert(&owner, &claim, response).await;
    let ending = async {
        until_held(&observer).await;
        execute(&owner, end).await;
    };
    tokio::join!(store.claim(&claim), ending).0.expect("the store answers")
}

#[tokio::test]
async fn finds_a_row_that_appears_between_two_snapshots() {
    let replay = replayed(claim_beside_an_uncommitted_row(Some("first"), "COMMIT").await);
    assert_eq!(replay.response, StoredResponse::message("first"));
    let outcome = claim_beside_an_uncommitted_row(None, "COMMIT").await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    let outcome = claim_beside_an_uncommitted_row(Some("never"), "ROLLBACK").await;
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

/// A transaction replaces the reservation that it has found, and none that has come since: nothing is known of the effect of that call.
#[tokio::test]
async fn does_not_commit_over_a_reservation_that_came_meanwhile() {
    let (_database, store) = Database::with_store().await;
    let first = Claim { lease: Duration::ZERO, ..new_claim() };
    acquire(&store, &first).await;
    let transaction = open_transaction(&store, &again(&first)).await;
    let second = again(&first);
    take_over(&store, &second).await;
    assert_eq!(ended(transaction, completion("first")).await, CommitOutcome::Superseded);
    take_over(&store, &again(&second)).await;
}

/// A role or a database may have another default than READ COMMITTED.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_acquires_or_takes_over_under_every_isolation_level() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let database = Database::new().await;
        let pool = database.pool_with(8, &format!("SET default_transaction_isolation = '{level}'"));
        let store = patient(pool);
        for _ in 0..8 {
            let [free, expired, ended] = [(); 3].map(|()| new_claim());
            complete(&store, &expired, &Completion { retention: Duration::ZERO, ..completion("old") }).await;
            acquire(&store, &Claim { lease: Duration::ZERO, ..ended.clone() }).await;
            for (claim, what) in [(free, "free"), (expired, "expired"), (ended, "ended")] {
                assert_eq!(claim_at_once(&store, &claim).await, (1, 23), "{level}: {what}");
            }
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
        let (store, call) = (database.store().max_batch(1), new_claim());
        match function {
            "claim" => acquire(&store, &call).await,
            "commit" => complete(&store, &call, &Completion { retention: Duration::ZERO, ..completion("old") }).await,
            _ => {}
        }
        hold_at(&owner, &format!("{function}_row"), place, &held).await;
        let released = async || store.release(&call.reservation).await.expect("the store answers");
        let step = async || match function {
            "claim" => acquire(&store, &call).await,
            "commit" => commit(&store, &again(&call), completion("done")).await,
            "complete" => assert_ne!(completed(&store, &call, "done").await, CompleteOutcome::Fenced),
            // Again, if it has come before the claim.
            _ => {
                let _ = released().await == ReleaseOutcome::Released || released().await == ReleaseOutcome::Released;
            }
        };
        // By a store of its own, which knows of no claim that may come late.
        let meanwhile = async {
            until_held(&owner).await;
            let other = database.store().max_batch(1);
            match function {
                "claim" => release(&other, &call).await,
                "commit" => assert_eq!(other.sweep(8).await.expect("the store answers"), 1),
                _ => acquire(&other, &call).await,
            }
            let_go(&owner).await;
        };
        tokio::join!(step(), meanwhile);
        match function {
            "claim" => extend(&store, &call, HOUR).await,
            "release" => acquire(&store, &again(&Claim { on_lease_ended: LeasePolicy::Refuse, ..call })).await,
            _ => assert_eq!(replay_of(&store, &call).await.response, StoredResponse::message("done")),
        }
    }
}
