//! The comparison of both tables before the switch.

use super::{
    PARTITIONS, claims, count, fill, go, partitions, plain,
    steps::{step, until_step},
};
use crate::prelude::*;

/// More than a batch.
const ROWS: i64 = 700;

/// The first record by its id, which is compared first.
const FIRST: &str = "id = (SELECT id FROM tenant.idempotency_keys ORDER BY id LIMIT 1)";

/// A mirror that does nothing.
const BROKEN: &str = "CREATE OR REPLACE FUNCTION tenant.idempotency_mirror() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN RETURN NULL; END $$";

/// Asserts that the database has refused the switch for this reason, that the table works as before, and that a new move succeeds.
async fn is_refused(database: &Database, refused: Result<(), tokio_postgres::Error>, why: &str, rows: i64) {
    let error = refused.expect_err(why);
    let told = error.as_db_error().expect("an answer of the database");
    assert_eq!(told.code(), &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{told:?}");
    assert!(told.message().contains(why), "{told:?}");
    assert!(told.hint().is_some_and(|hint| hint.contains("idempotency_stop_moving()")), "{told:?}");
    let owner = database.owner().await;
    assert_eq!(partitions(&owner).await, 0, "{why}");
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, rows, "{why}");
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    complete(&store, &claims(1).remove(0), &completion("done")).await;

    execute(&owner, "SELECT tenant.idempotency_stop_moving()").await;
    go(database).await.expect("as the error says");
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, rows + 1, "{why}");
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS), "{why}");
}

/// Differences of any kind that exist before the comparison.
#[tokio::test]
async fn refuses_a_copy_that_is_not_equal() {
    for (unequal, why) in [
        ("DELETE FROM tenant.idempotency_keys_next", "has no copy"),
        ("UPDATE tenant.idempotency_keys_next SET response_bytes = 'x'", "differs from its copy"),
        ("UPDATE tenant.idempotency_keys_next SET user_id = gen_random_uuid()", "copy"),
        ("UPDATE tenant.idempotency_keys_next SET idempotency_key = gen_random_uuid()", "copy"),
    ] {
        let database = plain().await;
        let owner = database.owner().await;
        fill(&owner, ROWS).await;
        until_step(&owner, "analyzed").await;
        execute(&owner, &format!("{unequal} WHERE {FIRST}")).await;
        is_refused(&database, move_on(&owner).await, why, ROWS).await;
    }
}

/// Otherwise a retry would be answered by a record that was released.
#[tokio::test]
async fn refuses_a_copy_of_a_record_that_is_gone() {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    until_step(&owner, "analyzed").await;
    execute(&owner, BROKEN).await;
    execute(&owner, &format!("DELETE FROM tenant.idempotency_keys WHERE {FIRST}")).await;
    is_refused(&database, move_on(&owner).await, "is gone, and not from its copy", ROWS - 1).await;
}

/// A record that was equal when it was compared, before the switch and under its lock.
#[tokio::test]
async fn refuses_a_change_without_its_mirror() {
    for (change, rows) in [
        ("UPDATE tenant.idempotency_keys SET procedure = '/other'", ROWS),
        ("DELETE FROM tenant.idempotency_keys", ROWS - 1),
    ] {
        for is_under_lock in [true, false] {
            let database = plain().await;
            let owner = database.owner().await;
            fill(&owner, ROWS).await;
            until_step(&owner, "compared").await;
            execute(&owner, BROKEN).await;
            execute(&owner, &format!("{change} WHERE {FIRST}")).await;
            let refused = if is_under_lock {
                owner.batch_execute("SELECT tenant.idempotency_switch_tables()").await
            } else {
                move_on(&owner).await
            };
            is_refused(&database, refused, "copy", rows).await;
        }
    }
}

/// Nothing is noted while a trigger is off.
#[tokio::test]
async fn refuses_a_table_whose_triggers_were_off() {
    for trigger in ["idempotency_mirror", "idempotency_mirror_changes"] {
        let database = plain().await;
        let owner = database.owner().await;
        fill(&owner, ROWS).await;
        until_step(&owner, "compared").await;
        execute(&owner, &format!("ALTER TABLE tenant.idempotency_keys DISABLE TRIGGER {trigger}")).await;
        execute(&owner, &format!("UPDATE tenant.idempotency_keys SET procedure = '/other' WHERE {FIRST}")).await;
        execute(&owner, &format!("ALTER TABLE tenant.idempotency_keys ENABLE ALWAYS TRIGGER {trigger}")).await;
        let refused = owner.batch_execute("SELECT tenant.idempotency_switch_tables()").await;
        is_refused(&database, refused, "were changed while it was moved", ROWS).await;
    }
}

/// As a subscription does, and a restore.
#[tokio::test]
async fn finds_the_changes_of_a_replica_mirrored() {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    until_step(&owner, "compared").await;
    let change = "UPDATE tenant.idempotency_keys SET procedure = '/other'";
    execute(&owner, &format!("SET session_replication_role = replica; {change}; RESET session_replication_role")).await;
    go(&database).await.expect("both are equal");
    let other = "SELECT count(*) FROM tenant.idempotency_keys WHERE procedure = '/other'";
    assert_eq!(count(&owner, other).await, ROWS);
}

/// The lock of the switch is only for some changes. Many are compared before, and their table is emptied: it would be read under the lock.
#[tokio::test]
async fn of_many_changes_is_not_made_under_the_lock_of_the_switch() {
    let database = plain().await;
    let owner = database.owner().await;
    fill(&owner, ROWS).await;
    until_step(&owner, "noted").await;
    for _ in 0..40 {
        execute(&owner, "UPDATE tenant.idempotency_keys SET procedure = procedure").await;
    }
    let error = owner.batch_execute("SELECT tenant.idempotency_switch_tables()").await.expect_err("too many");
    assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error:?}");
    let mut steps = Vec::new();
    while steps.last().is_none_or(|last| last != "switched") {
        steps.push(step(&owner).await);
    }
    assert_eq!(steps[steps.len() - 2..], ["emptied", "switched"]);
    assert!(steps[..steps.len() - 2].iter().all(|step| step == "compared") && steps.len() > 40, "{steps:?}");
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, ROWS);
}

/// Row-level security binds the owner, too, unless it is a superuser.
#[tokio::test]
async fn sees_all_records_as_the_owner_alone() {
    let database = Database::empty().await;
    let superuser = database.owner().await;
    let (role, mut owner) = plain_owner(&database).await;
    execute(&owner, &format!("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {API_ROLE}")).await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    fill(&superuser, ROWS).await;
    until_step(&owner, "noted").await;
    let api = database.api().await;
    for table in ["idempotency_move", "idempotency_move_changes"] {
        let error = api.batch_execute(&format!("SELECT FROM tenant.{table}")).await.expect_err("no right");
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{error:?}");
    }
    execute(&superuser, &format!("DELETE FROM tenant.idempotency_keys_next WHERE {FIRST}")).await;
    let refused = move_on(&owner).await.expect_err("a record has no copy");
    assert!(refused.as_db_error().is_some_and(|told| told.message().contains("has no copy")), "{refused:?}");
    execute(&owner, "SELECT tenant.idempotency_stop_moving()").await;

    // A change by the API, whose own rights end at the table of keys.
    until_step(&owner, "noted").await;
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    complete(&store, &claims(1).remove(0), &completion("done")).await;
    move_on(&owner).await.expect("both are equal");
    assert_eq!(count(&superuser, "SELECT count(*) FROM tenant.idempotency_keys").await, ROWS + 1);
    drop_roles(&superuser, &[&role]).await;
}

/// The same mover goes on.
async fn move_on(owner: &Client) -> Result<(), tokio_postgres::Error> {
    owner.batch_execute(&format!("CALL tenant.idempotency_move_to_partitions({PARTITIONS})")).await
}
