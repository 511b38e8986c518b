//! Connections that are given up at a wrong moment, or whose statements are stale.

use driver_suite::{Stack, all_are_back, all_have_ended, assert_clean, fill, new_claim, patient, pool, take};
use futures_util::FutureExt as _;
use tonic_idempotency::store::{
    ClaimOutcome, Store as _,
    driver::{Connection as _, Statement},
};
use tonic_idempotency_tests::Database;

use crate::stack::{Bb8Stack, DeadpoolStack};

const FIRST: Statement<'static> = Statement { sql: "SELECT 1 AS one", parameters: &[] };

/// Even if the transaction is never rolled back, the pool does not reuse the connection.
async fn are_not_given_away_in_a_transaction<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    for given_up in [true, false] {
        for mut connection in take::<S>(&pool, 1).await {
            let begins = connection.begin("BEGIN", FIRST, None);
            if given_up {
                assert!(begins.now_or_never().is_none(), "it has an answer to wait for");
            } else {
                begins.await.expect("a transaction");
            }
        }
        assert_clean::<S>(&pool).await;
        all_have_ended(&owner).await;
    }
}

#[tokio::test]
async fn of_deadpool_are_not_given_away_in_a_transaction() {
    are_not_given_away_in_a_transaction::<DeadpoolStack>().await;
}

#[tokio::test]
async fn of_bb8_are_not_given_away_in_a_transaction() {
    are_not_given_away_in_a_transaction::<Bb8Stack>().await;
}

/// After the first stale statement, all are prepared again.
async fn with_stale_statements_are_used_again<S: Stack>() {
    const CONNECTIONS: usize = 8;

    let database = Database::new().await;
    let pool = pool::<S>(&database, CONNECTIONS);
    let store = patient::<S>(pool.clone());
    for round in 0..2 {
        fill::<S>(&pool, CONNECTIONS).await;
        // Each has prepared the statement of the claim.
        let mut connections = take::<S>(&pool, CONNECTIONS).await;
        for connection in &mut connections {
            if round == 1 {
                connection.execute("DEALLOCATE ALL").await.expect("they are forgotten");
            }
        }
        drop(connections);
        all_are_back::<S>(&pool).await;
        for _ in 0..CONNECTIONS {
            let claimed = store.claim(&new_claim()).await;
            assert!(matches!(claimed, Ok(ClaimOutcome::Acquired)), "{claimed:?}");
        }
    }
    assert_eq!(S::connections(&pool).open, CONNECTIONS, "none was closed");
}

#[tokio::test]
async fn of_deadpool_with_stale_statements_are_used_again() {
    with_stale_statements_are_used_again::<DeadpoolStack>().await;
}

#[tokio::test]
async fn of_bb8_with_stale_statements_are_used_again() {
    with_stale_statements_are_used_again::<Bb8Stack>().await;
}
