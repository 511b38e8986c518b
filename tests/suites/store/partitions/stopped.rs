//! The move, while it is taken back, killed and begun again.

use tonic_idempotency::migrations::{self, MigrationError};

use super::{
    PARTITIONS, claims, count, fill, go, partitions, plain,
    steps::{step, until_step},
};
use crate::migrations::{schema, works};
use crate::prelude::*;

/// The lock that is held during a step of the move.
const MOVE: &str = "7594306392365691954";

/// A lock of the tests.
const HOLD: &str = "42";

/// Counts the requests that wait for a lock of this database.
const WAITS: &str = "SELECT count(*) FROM pg_locks l WHERE NOT l.granted
    AND (l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))";

const ROWS: i64 = 1_300;

async fn all(client: &Client) -> i64 {
    count(client, "SELECT count(*) FROM tenant.idempotency_keys").await
}

/// Takes the move back, however often its locks are not free in time.
async fn stop(owner: &Client) {
    while let Err(error) = owner.batch_execute("SELECT tenant.idempotency_stop_moving()").await {
        assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error:?}");
    }
}

/// Asserts that the mover's error says that the move was taken back.
#[track_caller]
fn was_told(moved: Result<(), MigrationError>) {
    let error = moved.expect_err("the move was taken back");
    let told = of_server(&error);
    assert_eq!(told.code(), &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{told:?}");
    assert!(told.message().contains("was taken back"), "{told:?}");
    assert!(told.hint().is_some_and(|hint| hint.contains("Nothing is lost")), "{told:?}");
}

/// Makes the copy wait for [`HOLD`] at its last rows.
async fn hold_the_copy(owner: &Client) {
    let hold = format!(
        "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF (SELECT count(*) FROM tenant.idempotency_keys WHERE id > NEW.id) < 100 THEN
                 PERFORM pg_advisory_xact_lock({HOLD});
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER hold BEFORE INSERT ON tenant.idempotency_keys_next FOR EACH ROW EXECUTE FUNCTION public.hold();
         SELECT pg_advisory_lock({HOLD})"
    );
    owner.batch_execute(&hold).await.expect("the trigger");
}

#[tokio::test]
async fn in_the_copy_loses_nothing_and_says_so() {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    let before = schema(&owner).await;
    until_step(&owner, "mirrored").await;
    assert_ne!(schema(&owner).await, before);
    let made = migrations::partition(&owner, &Schema::default(), PARTITIONS).await;
    made.expect_err("it is being moved");
    hold_the_copy(&owner).await;
    let moving = go(&database);
    tokio::pin!(moving);
    let stopped = async {
        until("the copy waits", async || {
            count(&owner, "SELECT count(*) FROM tenant.idempotency_keys_next").await == 1_000
                && count(&owner, WAITS).await > 0
        })
        .await;
        for _ in 0..2 {
            stop(&owner).await;
            assert_eq!(schema(&owner).await, before);
        }
    };
    let (moved, ()) = tokio::join!(moving, stopped);
    assert_eq!(all(&owner).await, ROWS);
    was_told(moved);
    assert_eq!(partitions(&owner).await, 0);
    go(&database).await.expect("another move");
    assert_eq!(all(&owner).await, ROWS);
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
}

#[tokio::test]
async fn at_the_switch_loses_nothing_and_says_so() {
    let database = plain().await;
    let (owner, mut reader, observer) = (database.owner().await, database.owner().await, database.owner().await);
    fill(&owner, ROWS).await;
    until_step(&owner, "mirrored").await;
    let before = format!("{WAITS} AND l.mode = 'AccessExclusiveLock'");
    let long = reader.transaction().await.expect("a transaction");
    long.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("the table's lock");
    let moving = go(&database);
    tokio::pin!(moving);
    let stopped = async {
        until("the switch waits", async || count(&observer, &before).await > 0).await;
        let pid = count(&owner, "SELECT pg_backend_pid()::int8").await;
        let waits = format!("{before} AND l.pid = {pid}");
        let released = async {
            until("the way back waits, too", async || count(&observer, &waits).await > 0).await;
            long.commit().await.expect("the end");
        };
        tokio::join!(stop(&owner), released);
    };
    let (moved, ()) = tokio::join!(moving, stopped);
    assert_eq!(all(&owner).await, ROWS);
    was_told(moved);
    assert_eq!(partitions(&owner).await, 0);
}

#[tokio::test]
async fn and_begun_again_while_the_first_mover_runs_loses_nothing() {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    until_step(&owner, "mirrored").await;
    hold_the_copy(&owner).await;
    let moving = go(&database);
    tokio::pin!(moving);
    let again = async {
        until("the copy waits", async || count(&owner, WAITS).await > 0).await;
        // The first mover does nothing meanwhile.
        owner.batch_execute(&format!("SELECT pg_advisory_lock({MOVE})")).await.expect("its lock");
        stop(&owner).await;
        until_step(&owner, "mirrored").await;
        owner.batch_execute(&format!("SELECT pg_advisory_unlock({MOVE})")).await.expect("its lock");
    };
    let (moved, ()) = tokio::join!(moving, again);
    was_told(moved);
    assert_eq!(partitions(&owner).await, 0, "the second move is not the first mover's");
    go(&database).await.expect("the second move goes on");
    assert_eq!(all(&owner).await, ROWS);
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
}

#[tokio::test]
async fn by_two_movers_at_once_loses_nothing() {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    let (one, other) = tokio::join!(go(&database), go(&database));
    one.expect("the move");
    other.expect("the move");
    assert_eq!(all(&owner).await, ROWS);
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
}

/// The mover is killed in the transaction of a step, and a second mover goes on: for each step, on a database of its own.
#[tokio::test]
async fn by_a_kill_at_any_step_loses_nothing() {
    let mut killed = JoinSet::new();
    for number in 0..STEPS.len() {
        killed.spawn(is_killed_at(number));
    }
    let mut seen = vec![String::new(); STEPS.len()];
    while let Some(ended) = killed.join_next().await {
        let (number, step) = ended.expect("the move");
        seen[number] = step;
    }
    assert_eq!(seen, STEPS);
}

/// The steps of a move of [`ROWS`].
const STEPS: [&str; 12] = [
    "made", "mirrored", "copied", "copied", "copied", "analyzed", "noted", "compared", "compared", "switched",
    "dropped", "done",
];

async fn is_killed_at(number: usize) -> (usize, String) {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    let mut mover = database.owner().await;
    for _ in 0..number {
        step(&mover).await;
    }
    let pid = count(&mover, "SELECT pg_backend_pid()::int8").await;
    let transaction = mover.transaction().await.expect("a transaction");
    let step = step(transaction.client()).await;
    owner.batch_execute(&format!("SELECT pg_terminate_backend({pid}, 10000)")).await.expect("it is killed");
    go(&database).await.expect("another mover goes on");
    assert_eq!(all(&owner).await, ROWS, "{step}");
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS), "{step}");
    works(&database).await;
    (number, step)
}

/// The table is partitioned then, and stays so.
#[tokio::test]
async fn after_the_switch_is_refused() {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    until_step(&owner, "switched").await;
    let error = owner.batch_execute("SELECT tenant.idempotency_stop_moving()").await.expect_err("it is too late");
    assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{error:?}");
    assert_eq!(all(&owner).await, ROWS);
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    complete(&store, &claims(1).remove(0), &completion("done")).await;
    migrations::move_to_partitions(&owner, &Schema::default(), PARTITIONS).await.expect("the rest");
    owner.batch_execute("SELECT tenant.idempotency_stop_moving()").await.expect("nothing is moved any more");
    assert_eq!(all(&owner).await, ROWS + 1);
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
}

/// The new table, or the tables of the progress, were dropped; or the progress is that of a different table.
#[tokio::test]
async fn with_the_progress_of_another_table_is_refused() {
    for other in [
        "UPDATE tenant.idempotency_move SET next_table = 0",
        "DROP TABLE tenant.idempotency_move, tenant.idempotency_move_changes",
        "DROP TABLE tenant.idempotency_keys_next",
    ] {
        let database = plain().await;
        let owner = database.owner().await;
        fill(&owner, ROWS).await;
        let before = schema(&owner).await;
        until_step(&owner, "copied").await;
        owner.batch_execute(other).await.expect(other);
        let error = owner.batch_execute("CALL tenant.idempotency_move_to_partitions(4)").await.expect_err(other);
        let told = error.as_db_error().expect("an answer of the database");
        assert_eq!(told.code(), &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{told:?}");
        assert!(told.hint().is_some_and(|hint| hint.contains("idempotency_stop_moving()")), "{told:?}");
        stop(&owner).await;
        assert_eq!(schema(&owner).await, before);
        go(&database).await.expect("another move");
        assert_eq!(all(&owner).await, ROWS);
    }
}
