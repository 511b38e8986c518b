//! A database that is slow, or too busy, but reachable.

use std::pin::pin;

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use tokio::time::timeout;
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use crate::prelude::*;

/// A status that takes longer than any patience.
const SLOW_STATUS: &str =
    "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text)
     RETURNS text LANGUAGE sql AS $$ SELECT 'completed'::text FROM pg_sleep(600) $$";

/// Begins a transaction that keeps everybody from the table of keys.
const LOCK: &str = "BEGIN; LOCK TABLE tenant.idempotency_keys IN ACCESS EXCLUSIVE MODE";

/// A status whose error cannot be caught.
const BROKEN_STATUS: &str =
    "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text)
     RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken' USING ERRCODE = 'assert_failure'; END $$";

/// A status that takes its connection with it.
const DEADLY_STATUS: &str =
    "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text)
     RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT 'completed'::text FROM pg_terminate_backend(pg_backend_pid()) $$";

/// The claim of a call that is completed, and whose project is, too.
async fn completed(database: &Database) -> tonic_idempotency::store::Claim {
    let claim = new_claim();
    let project = database.project(Some(OutboxStatus::Completed)).await;
    complete(&database.store(), &claim, &Completion { resource: Some(project), ..completion("first") }).await;
    again(&claim)
}

/// Less patience than the slow status needs, and more than a busy machine does.
fn hasty(pool: Pool) -> PostgresStore {
    PostgresStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(8))
}

#[tokio::test]
async fn a_completed_call_is_replayed_in_either_mode_whatever_its_status_does() {
    let database = Database::new().await;
    let claim = completed(&database).await;
    let owner = database.owner().await;
    for status in [SLOW_STATUS, BROKEN_STATUS, DEADLY_STATUS] {
        execute(&owner, status).await;
        // Without others in its pool, the claim keeps its connection while the status is read.
        for size in [4, 1] {
            match hasty(database.pool(size)).claim(&again(&claim)).await {
                Ok(outcome) => drop(replayed(outcome).status.expect_err("the status is not known")),
                Err(error) => {
                    assert_eq!((error.kind(), status, size), (StoreErrorKind::Overloaded, SLOW_STATUS, 1), "{error:?}");
                }
            }
            let refused = refusal(&hasty(database.pool(size)), &again(&claim)).await;
            replayed(refused).status.expect_err("the status is not known");
        }
    }
}

/// The connection of the slow status goes back to the pool when it has answered, and not before.
#[tokio::test]
async fn a_connection_whose_status_is_slow_is_kept_until_it_has_answered() {
    let database = Database::new().await;
    let claim = completed(&database).await;
    let owner = database.owner().await;
    let sql = "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text)
             RETURNS text LANGUAGE sql VOLATILE AS
             $$ SELECT 'completed'::text FROM (SELECT pg_advisory_xact_lock_shared(42)) waited $$;
             SELECT pg_advisory_lock(42)";
    owner.batch_execute(sql).await.expect("a slow status");
    // PostgreSQL's limit on the wait for locks would end it sooner.
    owner.batch_execute("ALTER FUNCTION tenant.idempotency_soft_status RESET ALL").await.expect("no limit");
    let pool = database.pool(4);
    let store = hasty(pool.clone()).timeout(Duration::from_secs(30));
    replayed(store.claim(&claim).await.expect("the store answers")).status.expect_err("the status is not known");

    assert_eq!(pool.status().available, pool.status().size - 1);
    let size = pool.status().size;
    owner.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("the status answers");
    until("its connection is back", async || pool.status().available == size).await;
    assert_eq!(pool.status().size, size);
}

#[tokio::test]
async fn slow_statuses_leave_connections_to_other_claims() {
    let database = Database::new().await;
    let claim = completed(&database).await;
    let owner = database.owner().await;
    owner.batch_execute(SLOW_STATUS).await.expect("a slow status");
    let pool = database.pool(8);
    let store = hasty(pool).timeout(Duration::from_secs(30));
    for _ in 0..16 {
        replayed(store.claim(&again(&claim)).await.expect("the store answers")).status.expect_err("it is not known");
    }
    let slow = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    let slow: i64 = value(&owner, slow).await;
    assert!((1..=2).contains(&slow), "{slow} of 8 connections wait for a status");
}

/// Or never. The server is asked so late that it has no time to answer; or so late that it is asked whether it answers in the last moment.
#[tokio::test]
async fn a_pool_whose_connection_comes_too_late_is_overloaded() {
    let (database, owner) = Database::with_owner().await;
    execute(&owner, LOCK).await;
    let time = Duration::from_secs(2);
    for (size, part) in [(1, 2.0), (1, 0.85), (2, 0.6)] {
        let pool = database.pool(size);
        let taken = join_all((0..size).map(|_| pool.get())).await;
        let (store, claimed) = (patient(pool).timeout(time), new_claim());
        let gives = async {
            tokio::time::sleep(time.mul_f64(part)).await;
            drop(taken);
        };
        let (claimed, ()) = tokio::join!(store.claim(&claimed), gives);
        let error = claimed.expect_err("the table is locked");
        assert_eq!(error.kind(), StoreErrorKind::Overloaded, "pool of {size}");
        assert!(part < 1.0 || !error.may_have_happened(), "{error:?}");
    }
}

/// A statement that takes too long, on a server that can be asked.
#[tokio::test]
async fn a_statement_that_takes_too_long_is_overload_and_leaves_its_connection_to_nobody() {
    let is_overload = async |size| {
        let database = Database::new().await;
        let pool = database.pool(size);
        let store = patient(pool.clone()).timeout(Duration::from_secs(3));
        complete(&patient(pool.clone()), &new_claim(), &completion("warm")).await;
        let owner = database.owner().await;
        execute(&owner, LOCK).await;

        let first = new_claim();
        let error = store.claim(&first).await.expect_err("a locked table");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Overloaded, true), "pool of {size}");
        let error = store.begin(&again(&first), TransactionOptions::default()).await.expect_err("a locked table");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Overloaded, false), "pool of {size}");

        // The next caller does not get a connection that still waits, and the pool does not grow beyond its size.
        if size == 1 {
            assert!(pool.get().now_or_never().is_none());
            execute(&owner, "ROLLBACK").await;
        }
        let next = timeout(Duration::from_secs(30), pool.get()).await.expect("it comes").expect("a connection");
        let answer = timeout(Duration::from_secs(30), next.query_one("SELECT 1", &[])).await;
        answer.expect("it waits for nothing").expect("an answer");
        drop(next);
        execute(&owner, "ROLLBACK").await;

        // Whether the claim took effect or not, the same claim now acquires the key.
        acquire(&patient(pool), &first).await;
    };
    join_all([1, 4].map(is_overload)).await;
}

/// Not a word comes for one call, and for others there are answers.
#[tokio::test]
async fn a_statement_without_an_answer_is_overload_if_others_are_answered() {
    let (database, owner) = Database::with_owner().await;
    let slow = new_claim();
    let sleeps = format!(
        "CREATE FUNCTION tenant.sleeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
         CREATE TRIGGER sleeps BEFORE INSERT ON tenant.idempotency_keys FOR EACH ROW
         WHEN (NEW.idempotency_key = '{}') EXECUTE FUNCTION tenant.sleeps()",
        slow.reservation.key.as_uuid()
    );
    execute(&owner, &sleeps).await;
    let store = patient(database.pool(8)).timeout(Duration::from_secs(2));
    let mut claimed = pin!(store.claim(&slow));
    let error = loop {
        let others = pin!(async { complete(&store, &new_claim(), &completion("done")).await });
        match select(claimed.as_mut(), others).await {
            Either::Left((ended, others)) => {
                others.await;
                break ended.expect_err("it sleeps");
            }
            Either::Right(_) => {}
        }
    };
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Overloaded, true));
}

/// A first attempt that is slow is not cut off by the second.
#[tokio::test]
async fn a_slow_statement_that_answers_in_time_succeeds() {
    let database = Database::new().await;
    let pool = database.pool(4);
    let store = patient(pool.clone()).timeout(Duration::from_secs(20));
    let owner = database.owner().await;
    execute(&owner, LOCK).await;
    let first = new_claim();
    let waiting = {
        let (store, first) = (store.clone(), first.clone());
        tokio::spawn(async move { store.begin(&first, TransactionOptions::default()).await })
    };
    let other = database.owner().await;
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tenant.idempotency_keys'::regclass";
    until("two attempts wait", async || value::<i64>(&other, waits).await >= 2).await;
    execute(&owner, "ROLLBACK").await;
    match waiting.await.expect("no panic").expect("the store answers") {
        BeginOutcome::Open { taken_over: false, transaction } => roll_back(transaction).await,
        other => panic!("expected a transaction, got {other:?}"),
    }
    until("all connections are back", async || pool.status().available == pool.status().size).await;
}

/// A timeout of zero would refuse everything.
#[tokio::test]
async fn a_timeout_of_zero_counts_as_one_millisecond() {
    let database = Database::new().await;
    let store = database.store().timeout(Duration::ZERO);
    assert!(format!("{store:?}").contains("timeout: 1ms"), "{store:?}");
}

/// As while an earlier attempt of the same call waits in its COMMIT. Further ones do not take connections from all other calls.
#[tokio::test]
async fn a_key_whose_row_is_locked_takes_two_connections_at_most() {
    let (database, owner) = Database::with_owner().await;
    let held = new_claim();
    acquire(&database.store(), &held).await;
    execute(&owner, "BEGIN; SELECT FROM tenant.idempotency_keys FOR UPDATE").await;
    let (pool, reservation) = (database.pool(8), &held.reservation);
    let store = &PostgresStore::new(pool.clone(), organization::resource_types()).timeout(Duration::from_millis(400));
    let done = completion("done");
    for step in 0..16 {
        let kind = match step % 4 {
            0 => store.extend(reservation, HOUR).await.map(drop),
            1 => store.complete(reservation, &done).await.map(drop),
            2 => store.release(reservation).await.map(drop),
            _ => store.abandon(reservation).await.map(drop),
        };
        assert_eq!(kind.expect_err("the row is locked").kind(), StoreErrorKind::Overloaded, "{step}");
        let in_use = pool.status().size - pool.status().available;
        assert!(in_use <= 2, "{in_use} connections after step {step}");
    }
    execute(&owner, "ROLLBACK").await;
    store.extend(reservation, HOUR).await.expect("the store answers");
}

/// A lock is no synchronous standby.
#[tokio::test]
async fn the_log_says_what_a_statement_that_was_given_up_waits_for() {
    let (lines, _collecting) = Lines::collect(LevelFilter::WARN);
    let (database, owner) = Database::with_owner().await;
    execute(&owner, LOCK).await;
    let store = database.store().timeout(Duration::from_millis(500));
    store.claim(&new_claim()).await.expect_err("a locked table");
    until("the log tells of it", async || lines.count("still run in the server") > 0).await;
    let written = lines.take();
    assert!(written.contains("Lock relation"), "{written}");
    execute(&owner, "ROLLBACK").await;
}
