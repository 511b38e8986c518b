//! The move, while calls go on.

use super::{
    PARTITIONS, claims, count, expire, fill, go, partitions, plain, statements_for_several_calls_work,
    steps::{step, until_step},
};
use crate::prelude::*;

/// The keys of a caller, by their outcomes.
#[derive(Default)]
struct Log {
    committed: Vec<Claim>,
    completed: Vec<Claim>,
    held: Vec<Claim>,
    released: Vec<Claim>,
}

/// Makes calls of all kinds until it is told to stop, and twice at least, however long they take.
async fn call(store: PostgresStore, stop: Arc<AtomicBool>) -> Log {
    let mut log = Log::default();
    while log.held.len() < 2 || !stop.load(Ordering::Relaxed) {
        for (number, claim) in claims(4).into_iter().enumerate() {
            if number == 3 {
                let begun = store.begin(&claim, TransactionOptions::default()).await.expect("the store answers");
                let transaction = match begun {
                    BeginOutcome::Open { transaction, .. } => transaction,
                    other => panic!("a new key: {other:?}"),
                };
                committed(transaction, completion("committed")).await;
                log.committed.push(claim);
                continue;
            }
            acquire(&store, &claim).await;
            match number {
                0 => {
                    store.complete(&claim.reservation, &completion("completed")).await.expect("the store answers");
                    log.completed.push(claim);
                }
                1 => {
                    store.release(&claim.reservation).await.expect("the store answers");
                    log.released.push(claim);
                }
                _ => log.held.push(claim),
            }
        }
    }
    log
}

/// Each call before, during and after has the outcome that it would have had without the move: the same store, on the same
/// connections, with the statements that they have prepared.
#[tokio::test]
async fn changes_no_call() {
    let database = plain().await;
    fill(&database.owner().await, 3_000).await;
    let store = patient(database.pool(8));
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        callers.spawn(call(store.clone(), Arc::clone(&stop)));
    }
    go(&database).await.expect("the way over");
    stop.store(true, Ordering::Relaxed);
    let logs = callers.join_all().await;

    let owner = database.owner().await;
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
    let (mut finished, mut others) = (0, 0);
    for log in &logs {
        for (claims, message) in [(&log.completed, "completed"), (&log.committed, "committed")] {
            for claim in claims {
                let replay = replay_of(&store, claim).await;
                assert!(format!("{replay:?}").contains(message), "{replay:?}");
                finished += 1;
            }
        }
        for claim in &log.released {
            acquire(&store, &again(claim)).await;
            others += 1;
        }
        for claim in &log.held {
            assert_in_flight(&store, claim).await;
            store.complete(&claim.reservation, &completion("late")).await.expect("it still holds the key");
            others += 1;
        }
    }
    assert!(finished > 16 && others > 16, "{finished} and {others} calls");
    let rows = count(&owner, "SELECT count(*) FROM tenant.idempotency_keys WHERE procedure = '/'").await;
    assert_eq!(rows, 3_000);
    statements_for_several_calls_work(&database).await;
}

/// A row that another transaction has locked is passed over, and is copied after the end of that transaction, with its changes.
#[tokio::test]
async fn copies_a_locked_row_when_it_is_free() {
    for is_committed in [true, false] {
        let database = plain().await;
        let mut owner = database.owner().await;
        let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
        let locked = claims(3);
        for claim in &locked {
            complete(&store, claim, &completion("done")).await;
        }
        fill(&owner, 100).await;
        until_step(&owner, "mirrored").await;
        let change = owner.transaction().await.expect("a transaction");
        let sql = "UPDATE tenant.idempotency_keys SET procedure = '/other' WHERE procedure <> '/'";
        change.batch_execute(sql).await.expect("locks");
        let observer = database.owner().await;
        let moving = go(&database);
        tokio::pin!(moving);
        // The copies of all others are there, and only these are missing.
        let copied = until("the others are copied", async || {
            count(&observer, "SELECT count(*) FROM tenant.idempotency_keys_next").await == 100
        });
        tokio::select! {
            moved = &mut moving => panic!("it left locked rows behind: {moved:?}"),
            () = copied => {}
        }
        if is_committed { change.commit().await } else { change.rollback().await }.expect("the end");
        moving.await.expect("the way over");
        let select = "SELECT count(*) FROM tenant.idempotency_keys WHERE procedure = '/other'";
        assert_eq!(count(&observer, select).await, if is_committed { 3 } else { 0 });
        assert_eq!(count(&observer, "SELECT count(*) FROM tenant.idempotency_keys").await, 103);
    }
}

/// Otherwise a row that is deleted between its read and the commit of its copy would be left behind, because the mirror does not see the
/// copy.
#[tokio::test]
async fn holds_a_row_from_its_read_until_its_copy_is_committed() {
    let database = plain().await;
    let (mut owner, other) = (database.owner().await, database.owner().await);
    fill(&owner, 1).await;
    until_step(&owner, "mirrored").await;
    let copying = owner.transaction().await.expect("a transaction");
    let sql = "SELECT tenant.idempotency_copy_rows(ARRAY(SELECT id FROM tenant.idempotency_keys), false)";
    copying.batch_execute(sql).await.expect("a copy");
    other.batch_execute("SET lock_timeout = '50ms'").await.expect("the setting");
    for change in ["UPDATE tenant.idempotency_keys SET procedure = '/other'", "DELETE FROM tenant.idempotency_keys"] {
        let error = other.batch_execute(change).await.expect_err("the row is locked");
        assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error:?}");
    }
    copying.commit().await.expect("the end");
    other.batch_execute("DELETE FROM tenant.idempotency_keys").await.expect("the row is free");
    assert_eq!(count(&other, "SELECT count(*) FROM tenant.idempotency_keys_next").await, 0);
}

/// A transaction with one snapshot cannot see a copy that was made since: it must not leave it behind.
#[tokio::test]
async fn leaves_no_copy_of_a_row_that_is_deleted_with_an_old_snapshot() {
    let database = plain().await;
    let (owner, mut other) = (database.owner().await, database.owner().await);
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    let claim = claims(1).remove(0);
    complete(&store, &claim, &completion("done")).await;
    until_step(&owner, "mirrored").await;
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    for statement in ["DELETE FROM tenant.idempotency_keys", "UPDATE tenant.idempotency_keys SET procedure = '/later'"]
    {
        let old = other.build_transaction().isolation_level(level).start().await.expect("a transaction");
        old.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("its snapshot");
        let sql = "SELECT tenant.idempotency_copy_rows(ARRAY(SELECT id FROM tenant.idempotency_keys), true)";
        owner.batch_execute(sql).await.expect("a copy");
        let error = old.batch_execute(statement).await.expect_err("it cannot see the copy");
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
        old.rollback().await.expect("the end");
        owner.batch_execute("DELETE FROM tenant.idempotency_keys_next").await.expect("no copy");
    }
    // With the copy in its snapshot it succeeds.
    execute(&owner, "SELECT tenant.idempotency_copy_rows(ARRAY(SELECT id FROM tenant.idempotency_keys), true)").await;
    let new = other.build_transaction().isolation_level(level).start().await.expect("a transaction");
    new.batch_execute("DELETE FROM tenant.idempotency_keys").await.expect("it sees the copy");
    new.commit().await.expect("the end");
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys_next").await, 0);
}

/// Each change of the table of keys is in the new table as soon as it is committed.
#[tokio::test]
async fn mirrors_every_change() {
    let database = plain().await;
    let owner = database.owner().await;
    let store = patient(database.pool(2));
    let before = claims(6);
    for claim in &before {
        acquire(&store, claim).await;
    }
    until_step(&owner, "mirrored").await;
    let differences = "SELECT count(*) FROM (
        (SELECT * FROM tenant.idempotency_keys_next EXCEPT SELECT * FROM tenant.idempotency_keys)) d";
    let after = claims(6);
    for claim in &after {
        acquire(&store, claim).await;
    }
    for claims in [&before, &after] {
        record(&store, &claims[0], "done").await;
        release(&store, &claims[1]).await;
        abandon(&store, &claims[2]).await;
        extend(&store, &claims[3], 2 * HOUR).await;
        for expired in &claims[4..] {
            expire(&owner, expired, -1.0).await;
        }
        acquire(&store, &again(&claims[4])).await;
    }
    assert_eq!(store.sweep(10).await.expect("the store answers"), 2);
    for claim in [&before[0], &after[0]] {
        let update = "UPDATE tenant.idempotency_keys SET user_id = gen_random_uuid() WHERE user_id = $1";
        let user = claim.reservation.owner.as_uuid();
        owner.query_typed(update, &[(user as _, Type::UUID)]).await.expect("by hand: another user's now");
    }
    assert_eq!(count(&owner, differences).await, 0);
    // Rows that were not changed are copied later: here, there are none.
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, 8);
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys_next").await, 8);
    owner.batch_execute("TRUNCATE tenant.idempotency_keys").await.expect_err("it would not be mirrored");
}

/// A transaction that has used the table holds up the switch. Calls wait behind it for some milliseconds, now and then.
#[tokio::test]
async fn waits_for_a_long_transaction_without_holding_up_calls() {
    let database = plain().await;
    let (mut owner, observer) = (database.owner().await, database.owner().await);
    let store = patient(database.pool(2));
    let held = claims(1).remove(0);
    acquire(&store, &held).await;
    until_step(&owner, "mirrored").await;
    let long = owner.transaction().await.expect("a transaction");
    long.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("the table's lock");
    let moving = go(&database);
    tokio::pin!(moving);
    let calls = async {
        until("the switch has begun to wait", async || {
            let waiting = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted";
            count(&observer, waiting).await > 0
        })
        .await;
        for claim in claims(50) {
            complete(&store, &claim, &completion("done")).await;
        }
    };
    tokio::select! {
        moved = &mut moving => panic!("it did not wait: {moved:?}"),
        () = calls => {}
    }
    assert_eq!(partitions(&observer).await, 0);
    long.commit().await.expect("the end");
    moving.await.expect("the way over");
    assert_eq!(partitions(&observer).await, i64::from(PARTITIONS));
    assert_eq!(count(&observer, "SELECT count(*) FROM tenant.idempotency_keys").await, 51);
}

/// Under a publication of all tables, no row of a table without a primary key can be changed.
#[tokio::test]
async fn has_tables_with_primary_keys_at_each_step() {
    let database = plain().await;
    let owner = database.owner().await;
    migrations::limits(&owner, &Schema::default()).await.expect("the limits");
    let name = format!("idempotency_tests_{}", Uuid::new_v4().simple());
    owner.batch_execute(&format!("CREATE PUBLICATION {name} FOR ALL TABLES")).await.expect("a publication");
    fill(&owner, 600).await;
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    let without = "SELECT count(*) FROM pg_class c
                   WHERE c.relnamespace = 'tenant'::regnamespace AND c.relkind IN ('r', 'p')
                     AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)";
    let mut steps = Vec::new();
    while steps.last().is_none_or(|last| last != "done") {
        complete(&store, &claims(1).remove(0), &completion("done")).await;
        steps.push(step(&owner).await);
        assert_eq!(count(&owner, without).await, 0, "{steps:?}");
    }
}
