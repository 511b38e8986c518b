//! A user whose account was closed: no table has anything of them afterwards.

use super::{
    reader::Reader,
    statements::{Packs, Statements, statements_of},
};
use crate::prelude::*;

#[tokio::test]
async fn a_user_leaves_the_records_of_others_without_a_pack() {
    let reader = Reader::with(Packs::None).await;
    assert_erases(&reader).await;
    reader.leave().await;
}

#[tokio::test]
async fn a_user_leaves_the_records_of_others_with_both_packs_and_at_each_step_of_a_move() {
    let reader = Reader::with(Packs::Both).await;
    assert_erases(&reader).await;
    let mut steps = Vec::new();
    while steps.last().is_none_or(|step| step != "done") {
        let step = format!("SELECT step FROM tenant.idempotency_move_step({}, 500, NULL)", partitions().unwrap_or(16));
        steps.push(value::<String>(&reader.owner, &step).await);
        assert_erases(&reader).await;
    }
    let expected = ["made", "mirrored", "copied", "noted", "switched", "dropped"];
    // A table that has its partitions is not moved.
    let missing =
        expected.iter().find(|expected| partitions().is_none() && !steps.iter().any(|step| step == *expected));
    assert!(missing.is_none(), "{missing:?} in {steps:?}");
    reader.leave().await;
}

/// The statements have its name once, so that a reader can replace it.
#[tokio::test]
async fn a_user_leaves_a_table_with_another_name() {
    let reader = Reader::with(Packs::None).await;
    let user = *reader.done.reservation.owner.as_uuid();
    reader.owner.batch_execute("ALTER TABLE tenant.idempotency_keys RENAME TO operations").await.expect("another name");
    assert!(rows(&reader, "tenant.operations", user).await > 0);
    let erase = erase();
    let text = erase.text.replacen("tenant.idempotency_keys", "tenant.operations", 1);
    reader.run(&Statements { text, ..erase }).await;
    assert_eq!(rows(&reader, "tenant.operations", user).await, 0);
    reader.leave().await;
}

/// Lets two users leave something in each table, and erases one of them.
async fn assert_erases(reader: &Reader) {
    let user = *reader.done.reservation.owner.as_uuid();
    let other = Uuid::new_v4();
    for user in [user, other] {
        let call = Claim { resource_type: None, ..claim(user, Uuid::new_v4()) };
        complete(&reader.operated.store, &call, &completion("done")).await;
        reader.operated.inspect(&call).await;
    }
    let tables = tables_with_users(reader).await;
    if tables.iter().any(|table| table.ends_with("allowances")) {
        let allow = "INSERT INTO tenant.idempotency_allowances VALUES ($1, gen_random_uuid(), 10, now()), ($2, gen_random_uuid(), 10, now())";
        reader.operated.superuser.execute(allow, &[&user, &other]).await.expect("two allowances");
    }
    let mut before = Vec::new();
    for table in &tables {
        before.push(rows(reader, table, other).await);
    }
    reader.run(&erase()).await;
    for (table, before) in tables.iter().zip(before) {
        assert_eq!(rows(reader, table, user).await, 0, "{table}");
        assert_eq!(rows(reader, table, other).await, before, "{table}");
    }
}

/// The statements of the page.
fn erase() -> Statements {
    let erase = statements_of("operations").into_iter().find(|statements| statements.text.contains("BEGIN;"));
    erase.expect("the statements")
}

/// Returns all tables that say whose their rows are.
async fn tables_with_users(reader: &Reader) -> Vec<String> {
    let tables = "SELECT DISTINCT c.oid::regclass::text
                  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
                  WHERE c.relnamespace = 'tenant'::regnamespace AND c.relkind IN ('r', 'p') AND a.attname IN ('user_id', 'owner')";
    let tables = reader.operated.superuser.query(tables, &[]).await.expect("the tables");
    tables.iter().map(|row| row.get(0)).collect()
}

async fn rows(reader: &Reader, table: &str, user: Uuid) -> i64 {
    let count = format!("SELECT count(*) FROM {table} WHERE user_id = $1");
    reader.operated.superuser.query_one(&count, &[&user]).await.expect("the count").get(0)
}
