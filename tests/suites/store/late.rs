//! Claims that arrive after their time: they change nothing.

use crate::prelude::*;
use crate::record;

/// A claim of this owner's key with a token of its own.
fn statement(id: Uuid, until: &str) -> String {
    let token = Uuid::new_v4();
    format!(
        "CALL tenant.idempotency_claim('{id}', '{id}', '{token}', '/a.B/C', decode(repeat('07', 32), 'hex'), NULL, 60, 3600, 'rerun',
             'in_progress', NULL, false, NULL, NULL, {until}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
}

/// Calls the claim, and returns the state.
async fn claim(client: &Client, id: Uuid, until: &str) -> String {
    let row = client.query_typed_one(&statement(id, until), &[]).await.expect("an answer");
    assert!(row.get::<_, f64>("clock") > 1e9, "the clock");
    row.get("state")
}

/// The time of the server, this many seconds from now.
fn in_seconds(seconds: i32) -> String {
    format!("date_part('epoch', clock_timestamp()) + {seconds}")
}

#[tokio::test]
async fn reserves_nothing_and_takes_nothing_over() {
    let database = Database::new().await;
    let (client, owner, id) = (database.api().await, database.owner().await, Uuid::new_v4());
    assert_eq!(claim(&client, id, &in_seconds(-1)).await, "late");
    assert_eq!(count(&owner, "tenant.idempotency_keys").await, 0);
    assert_eq!(claim(&client, id, &in_seconds(60)).await, "acquired");
    owner.batch_execute("UPDATE tenant.idempotency_keys SET lease_expires = now()").await.expect("its lease ends");
    assert_eq!(claim(&client, id, &in_seconds(-1)).await, "late");
    assert_eq!(count(&owner, "tenant.idempotency_keys WHERE attempts = 1").await, 1);
    assert_eq!(claim(&client, id, "'Infinity'").await, "taken_over");
}

/// The claim is sent in time, and waits for another transaction that has the key until its time is over.
#[tokio::test]
async fn keeps_nothing_that_it_wrote_after_a_wait() {
    let database = Database::new().await;
    let (client, owner, id) = (database.api().await, database.owner().await, Uuid::new_v4());
    let insert = format!(
        "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
         VALUES ('{id}', '{id}', '/a.B/C', '', now() + interval '1 hour')"
    );
    let lock = "SELECT FROM tenant.idempotency_keys FOR UPDATE".to_owned();
    for (held, reserved) in [(insert, "attempts = 1"), (lock, "attempts = 2")] {
        owner.batch_execute(&format!("BEGIN; {held}")).await.expect("the key is held");
        let until: f64 =
            client.query_typed_one(&format!("SELECT {}", in_seconds(1)), &[]).await.expect("a time").get(0);
        let waits = async {
            let blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()";
            let is_over = format!("SELECT clock_timestamp() > to_timestamp({until})");
            let waits = async || value::<i64>(&owner, blocked).await > 0;
            tonic_idempotency_tests::until("the claim waits", waits).await;
            let is_over = async || value::<bool>(&owner, &is_over).await;
            tonic_idempotency_tests::until("its time is over", is_over).await;
            owner.batch_execute("ROLLBACK").await.expect("the key is free");
        };
        let late = async { client.batch_execute(&statement(id, &until.to_string())).await.expect_err("it is late") };
        let (late, ()) = tokio::join!(late, waits);
        assert_eq!(late.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{late:?}");
        assert_eq!(count(&owner, &format!("tenant.idempotency_keys WHERE {reserved}")).await, 0);
        // For the second turn: a reservation whose lease has ended.
        assert_eq!(
            claim(&client, id, "'Infinity'").await,
            if reserved == "attempts = 1" { "acquired" } else { "taken_over" }
        );
        owner.batch_execute("UPDATE tenant.idempotency_keys SET lease_expires = now()").await.expect("its lease ends");
    }
}

/// The lock of the key would have others believe that a call runs.
#[tokio::test]
async fn takes_no_lock() {
    let database = Database::new().await;
    let (client, id) = (database.api().await, Uuid::new_v4());
    let take = include_str!("../../../src/store/sql/statements/take.sql");
    for (until, state, locks) in [(in_seconds(-1), "late", 0), (in_seconds(60), "acquired", 1)] {
        client.batch_execute("BEGIN").await.expect("a transaction");
        let take = take.replace("$1", &format!("'{id}'::uuid")).replace("$2", &format!("'{id}'::uuid"));
        let take = take.replace("$3", &format!("'{id}'")).replace("$4", "60").replace("$5", "NULL");
        let take = take.replace("$6", "NULL::text[]").replace("$7", &until).replace("$8", "false");
        assert_eq!(client.query_typed_one(&take, &[]).await.expect("an answer").get::<_, bool>("is_free"), locks == 1);
        let held = "pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'";
        assert_eq!(count(&client, held).await, locks, "{state}");
        client.batch_execute("ROLLBACK; BEGIN").await.expect("another transaction");
        let begin = format!(
            "SELECT state FROM tenant.idempotency_begin('{id}', '{id}', '{id}', '/a.B/C', decode(repeat('07', 32), 'hex'), NULL, 60, 60,
                 'rerun', 'in_progress', NULL, NULL, NULL, {until})"
        );
        assert_eq!(client.query_typed_one(&begin, &[]).await.expect("an answer").get::<_, &str>(0), state);
        assert_eq!(count(&client, held).await, locks, "{state}");
        client.batch_execute("ROLLBACK").await.expect("its end");
    }
}

/// Outcomes that go with it are recorded all the same: their tokens protect them.
#[tokio::test]
async fn reserves_nothing_together_with_others() {
    let database = Database::new().await;
    let (client, owner) = (database.api().await, database.owner().await);
    let [done, late, early] = [(); 3].map(|()| Uuid::new_v4());
    assert_eq!(claim(&client, done, "'Infinity'").await, "acquired");
    let token: Uuid = value(&owner, "SELECT token FROM tenant.idempotency_keys").await;
    for (id, until) in [(late, in_seconds(-1)), (early, in_seconds(60))] {
        let statement = format!(
            "CALL tenant.idempotency_write_many(ARRAY['{id}']::uuid[], ARRAY['{id}']::uuid[], ARRAY['{id}']::uuid[], ARRAY['/a.B/C'],
                 ARRAY[decode(repeat('07', 32), 'hex')], ARRAY[NULL]::bytea[], ARRAY[60], ARRAY[3600], false, ARRAY[NULL]::uuid[], NULL,
                 {until}, ARRAY['{done}']::uuid[], ARRAY['{done}']::uuid[], ARRAY['{token}']::uuid[], ARRAY[''::bytea], ARRAY[false],
                 ARRAY[NULL]::bytea[], ARRAY[NULL]::bytea[], ARRAY[3600], ARRAY[NULL], ARRAY[NULL], NULL, NULL, NULL)"
        );
        let row = client.query_typed_one(&statement, &[]).await.expect("an answer");
        let [reserved, completed] = ["reserved", "completed"].map(|name| row.get::<_, Option<&[u8]>>(name).is_some());
        assert_eq!((reserved, completed), (id == early, id == late), "{until}");
    }
    assert_eq!(count(&owner, "tenant.idempotency_keys WHERE response_bytes IS NOT NULL").await, 1);
    assert_eq!(count(&owner, "tenant.idempotency_keys WHERE response_bytes IS NULL").await, 1);
}

/// As after a clock that was set forward: the answer tells it, and the next attempt is in time.
#[tokio::test]
async fn is_made_again_in_either_mode_and_refused_if_that_does_not_help() {
    for (late, overloaded) in [("= 1", false), ("> 0", true)] {
        let database = Database::new().await;
        let replace = format!(
            "CREATE SEQUENCE public.attempts; GRANT USAGE ON SEQUENCE public.attempts TO public;
             DO $$ BEGIN
                 EXECUTE replace(pg_get_functiondef('tenant.idempotency_claim_row'::regproc), 'v_now > v_until',
                     'nextval(''public.attempts'') {late}');
                 EXECUTE replace(pg_get_functiondef('tenant.idempotency_begin_row'::regproc), 'date_part(''epoch'', clock_timestamp()) <= p_until',
                     'NOT nextval(''public.attempts'') {late}');
             END $$"
        );
        database.owner().await.batch_execute(&replace).await.expect("another clock");
        // Alone, and by the functions: the other statements have no part that a test could replace.
        let store = database.store().max_batch(1).common_path(false);
        let claim = record::new_claim();
        let claimed = store.claim(&claim).await.map_err(|error| error.kind());
        let again = "ALTER SEQUENCE public.attempts RESTART";
        database.owner().await.batch_execute(again).await.expect("another first attempt");
        let begun = store.begin(&record::new_claim(), TransactionOptions::default()).await;
        match (claimed, begun.map_err(|error| error.kind())) {
            (Ok(ClaimOutcome::Acquired), Ok(BeginOutcome::Open { transaction, .. })) if !overloaded => {
                transaction.roll_back().await;
            }
            (Err(StoreErrorKind::Overloaded), Err(StoreErrorKind::Overloaded)) if overloaded => {}
            other => panic!("{late}: {other:?}"),
        }
    }
}
