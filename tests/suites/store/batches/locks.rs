//! Locks that a statement takes and waits for. A statement that fails changes nothing.

use super::statements::{self, Outcome};
use crate::prelude::*;

const OPEN: &str = "tenant.idempotency_keys WHERE response_bytes IS NULL";

fn calls(users: usize, keys: usize) -> Vec<Claim> {
    let users: Vec<_> = (0..users).map(|_| Uuid::new_v4()).collect();
    (0..keys).map(|index| claim(users[index % users.len()], Uuid::new_v4())).collect()
}

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> SqlState {
    answer.expect_err("an error").code().expect("an answer of the server").clone()
}

/// The rows are written in the order of owners and keys, whatever the order of the parameters is.
#[tokio::test]
async fn are_taken_in_the_order_of_owners_and_keys() {
    let database = Database::new().await;
    let (owner, api) = (database.owner().await, database.api().await);
    let claims = calls(4, 32);
    let mut sorted: Vec<_> =
        claims.iter().map(|claim| (*claim.reservation.owner.as_uuid(), *claim.reservation.key.as_uuid())).collect();
    sorted.sort();
    // In each partition, if there are any.
    let written = async || {
        let select =
            "SELECT tableoid::oid, user_id, idempotency_key FROM tenant.idempotency_keys ORDER BY tableoid, ctid";
        let rows = owner.query(select, &[]).await.expect("the rows");
        let rows: Vec<(u32, Uuid, Uuid)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert!(rows.is_sorted(), "{rows:?}");
        let mut keys: Vec<(Uuid, Uuid)> = rows.into_iter().map(|(_, user, key)| (user, key)).collect();
        keys.sort();
        keys
    };
    statements::reserve(&api, &claims.iter().collect::<Vec<_>>()).await.expect("a reservation");
    assert_eq!(written().await, sorted);
    let reservations: Vec<_> = claims.iter().rev().map(|claim| claim.reservation).collect();
    statements::complete(&api, &reservations, &[Outcome::DONE; 32]).await.expect("a completion");
    assert_eq!(written().await, sorted);
}

/// Each completes what the other reserves anew, and has done so when it comes to that. The server finds no deadlock here: it is the short
/// wait that ends.
#[tokio::test]
async fn that_two_statements_hold_from_each_other_fail_them_after_a_short_while() {
    let (database, owner) = Database::with_owner().await;
    let meet = "CREATE FUNCTION public.meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock_shared(42, 42);
                    FOR v_round IN 1..20000 LOOP
                        EXIT WHEN (SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                                   WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid = 42) = 2;
                        PERFORM pg_sleep(0.001);
                    END LOOP;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER meet BEFORE INSERT ON tenant.idempotency_keys EXECUTE FUNCTION public.meet()";
    let (store, calls) = (database.store(), calls(2, 2));
    for call in &calls {
        acquire(&store, call).await;
    }
    owner.batch_execute(meet).await.expect("the trigger");
    let write = async |mine: &Claim, theirs: &Claim| {
        let client = database.owner().await;
        execute(&client, &format!("SET deadlock_timeout = '10min'; SET ROLE {API_ROLE}")).await;
        statements::write(&client, &[&again(theirs)], &[mine.reservation], &[Outcome::DONE]).await
    };
    let written = async { tokio::join!(write(&calls[0], &calls[1]), write(&calls[1], &calls[0])) };
    let (one, other) = tokio::time::timeout(Duration::from_secs(60), written).await.expect("they end");
    let mut failed = 0;
    for (written, call) in [one, other].into_iter().zip(&calls) {
        match written {
            Ok(written) => assert_eq!(written, (vec![false], vec![true])),
            Err(error) => {
                failed += 1;
                assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error}");
                // It has changed nothing, and the call goes alone.
                record(&store, call, "done").await;
            }
        }
        assert_eq!(replay_of(&store, call).await.response, StoredResponse::message("done"));
    }
    assert!(failed > 0, "they have waited for each other");
}

#[tokio::test]
async fn that_another_transaction_holds_fail_the_statement_after_a_short_while() {
    let (database, owner) = Database::with_owner().await;
    let (blocker, api, store) = (database.owner().await, database.api().await, database.store());
    let (claims, held) = (calls(2, 4), calls(2, 4));
    for claim in &held {
        acquire(&store, claim).await;
    }
    execute(&blocker, "BEGIN").await;
    insert(&blocker, &claims[2], None).await;
    let lock = format!("SELECT FROM tenant.idempotency_keys WHERE token = '{}' FOR UPDATE", held[1].reservation.token);
    execute(&blocker, &lock).await;
    let reserved = statements::reserve(&api, &claims.iter().collect::<Vec<_>>()).await;
    assert_eq!(code(reserved), SqlState::LOCK_NOT_AVAILABLE);
    let reservations: Vec<_> = held.iter().map(|claim| claim.reservation).collect();
    let recorded = statements::complete(&api, &reservations, &[Outcome::DONE; 4]).await;
    assert_eq!(code(recorded), SqlState::LOCK_NOT_AVAILABLE);
    // A look waits for no lock.
    let found = statements::look(&api, &held.iter().collect::<Vec<_>>()).await.expect("a look");
    assert!(found.iter().all(Option::is_some));
    execute(&blocker, "ROLLBACK").await;
    assert_eq!(count(&owner, OPEN).await, 4, "nothing was changed");
    let reserved = statements::reserve(&api, &claims.iter().collect::<Vec<_>>()).await;
    assert_eq!(reserved.expect("a reservation"), [true; 4]);
}

#[tokio::test]
async fn are_not_kept_by_a_statement_that_one_of_its_rows_fails() {
    let (database, owner) = Database::with_owner().await;
    let (api, store) = (database.api().await, database.store());
    let claims = calls(2, 3);
    for claim in &claims {
        acquire(&store, claim).await;
    }
    let nobody = Uuid::new_v4().to_string();
    let reservations: Vec<_> = claims.iter().map(|claim| claim.reservation).collect();
    for (bad, expected) in [
        (Outcome { resource: Some(("project_id", &nobody)), ..Outcome::DONE }, SqlState::FOREIGN_KEY_VIOLATION),
        (Outcome { resource: Some(("project_id", "x")), ..Outcome::DONE }, SqlState::INVALID_TEXT_REPRESENTATION),
        (Outcome { error: Some(b"and an error"), ..Outcome::DONE }, SqlState::CHECK_VIOLATION),
    ] {
        let recorded = statements::complete(&api, &reservations, &[Outcome::DONE, bad, Outcome::DONE]).await;
        assert_eq!(code(recorded), expected);
        assert_eq!(count(&owner, OPEN).await, 3, "{expected:?}");
    }
    let recorded = statements::complete(&api, &reservations, &[Outcome::DONE; 3]).await;
    assert_eq!(recorded.expect("a completion"), [true; 3]);
}
