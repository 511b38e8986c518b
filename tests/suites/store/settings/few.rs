//! A few settings and encodings, and the settings that the migrations override.

use super::everything::{database_name, set_up, try_to_set, works_in_encoding, works_with_setting};
use crate::prelude::*;

#[tokio::test]
async fn change_nothing() {
    let mut databases = JoinSet::new();
    for setting in ["extra_float_digits = -15", "quote_all_identifiers = on", "standard_conforming_strings = off"] {
        databases.spawn(works_with_setting(setting));
    }
    databases.join_all().await;
}

#[tokio::test]
async fn change_nothing_in_another_encoding() {
    let mut databases = JoinSet::new();
    for encoding in ["EUC_JP", "LATIN1"] {
        databases.spawn(works_in_encoding(encoding));
    }
    databases.join_all().await;
}

/// The crate sets the mode of its transactions.
#[tokio::test]
async fn do_not_make_the_crates_own_transactions_read_only() {
    let database = Database::empty().await;
    let name = database_name(&database.owner().await).await;
    try_to_set(&database.owner().await, &name, "default_transaction_read_only = on").await.expect("a setting");
    set_up(&mut database.owner().await).await;
}

/// The tables stay heaps, because calls use the places of rows.
#[tokio::test]
async fn do_not_choose_another_access_method_for_the_tables() {
    let (database, owner) = Database::empty_with_owner().await;
    owner.batch_execute("CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler").await.expect("a method");
    try_to_set(&owner, &database_name(&owner).await, "default_table_access_method = other").await.expect("a setting");
    let owner = &mut database.owner().await;
    set_up(owner).await;
    migrations::partition(owner, &Schema::default(), 2).await.expect("partitions");
    let others = "SELECT c.relname::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam
                  WHERE c.relnamespace = 'tenant'::regnamespace AND a.amname = 'other'";
    let others: Vec<String> = values(owner, others).await;
    assert_eq!(others, Vec::<String>::new());
}

/// The migrations lift the role's limits while they run, and restore them afterwards. The limit of a statement counts from its beginning.
#[tokio::test]
async fn do_not_end_a_migration_in_the_middle() {
    const LIMITS: &str =
        "SELECT pg_catalog.current_setting('statement_timeout') || pg_catalog.current_setting('lock_timeout')";
    let database = Database::empty().await;
    let (first, observer) = (database.owner().await, database.owner().await);
    let name = database_name(&observer).await;
    try_to_set(&observer, &name, "statement_timeout = '1000ms'").await.expect("a setting");
    try_to_set(&observer, &name, "lock_timeout = '500ms'").await.expect("a setting");
    let second = database.owner().await;

    execute(&first, "BEGIN; SELECT pg_advisory_xact_lock(7594306392365691953)").await;
    let migrating = tokio::spawn(async move {
        for migration in migrations::all(&Schema::default()) {
            second.batch_execute(migration.sql()).await?;
        }
        second.query_one(LIMITS, &[]).await
    });
    until("the migrations have waited for longer than they may", async || {
        assert!(!migrating.is_finished(), "the migrations have ended without waiting");
        let waits =
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'
                     AND query_start < clock_timestamp() - interval '1500 ms')";
        value::<bool>(&observer, waits).await
    })
    .await;
    execute(&first, "COMMIT").await;
    let limits: String = migrating.await.expect("no panic").expect("the migrations run").get(0);
    assert_eq!(limits, "1s500ms");
}
