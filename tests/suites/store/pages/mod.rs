//! The documentation's SQL: every statement of a page is run, in the order of the page, as the role that the comment above it names, with
//! and without the packs.

mod erasing;
mod reader;
mod statements;

use tokio_postgres::SimpleQueryMessage;

use self::{
    reader::Reader,
    statements::{Packs, pages_with_sql, statements_of},
};
use crate::prelude::*;

/// The pages whose statements need nothing but their comments say.
const PAGES: [&str; 7] = ["callers", "connect", "consumers", "database", "keys", "patterns", "redis"];

#[test]
fn every_page_with_sql_is_run() {
    // The blocks of that page are run by `citus_pack`.
    let mut run = [&PAGES[..], &["citus", "operations"]].concat();
    run.sort_unstable();
    assert_eq!(pages_with_sql(), run);
}

#[tokio::test]
async fn every_statement_runs_without_a_pack_and_with_both() {
    join_all([Packs::None, Packs::Both].map(run_pages)).await;
}

async fn run_pages(packs: Packs) {
    for page in PAGES {
        let reader = Reader::with(packs).await;
        for statements in statements_of(page) {
            if statements.can_run(packs) {
                reader.run(&statements).await;
            }
        }
        reader.leave().await;
    }
}

#[tokio::test]
async fn the_page_of_operations_does_what_it_says_without_a_pack_and_with_both() {
    join_all([Packs::None, Packs::Both].map(operate)).await;
}

async fn operate(packs: Packs) {
    let reader = Reader::with(packs).await;
    let store = reader.operated.store.clone();
    let running = any();
    let transaction = open_transaction(&store, &running).await;
    // This transaction outlives the end of the other.
    let beside = open_transaction(&store, &any()).await;
    let mut seen = Vec::new();
    for mut statements in statements_of("operations") {
        let pid = reader.operated.inspect(&running).await.get::<_, Option<i32>>("holder_pid");
        statements.text = statements.text.replace("12345", &pid.unwrap_or_default().to_string());
        let (rows, text) = (reader.run(&statements).await, &statements.text);
        let row = rows.first().cloned().unwrap_or_default();
        for (function, expected) in [
            ("idempotency_inspect(", "reserved"),
            ("idempotency_operator_release(", "released"),
            ("pg_terminate_backend(", "t"),
        ] {
            if text.contains(function) {
                assert_eq!(row, expected, "{text}");
                seen.push(function);
            }
        }
        if text.contains("FROM pg_stat_activity") {
            assert!(!rows.is_empty(), "{text}");
        }
    }
    assert_eq!(seen, ["idempotency_inspect(", "idempotency_operator_release(", "pg_terminate_backend("]);

    // The released call is fenced; the ended transaction left nothing.
    assert_eq!(completed(&store, &reader.stuck, "late").await, CompleteOutcome::Fenced);
    transaction.commit(Some(completion("late"))).await.expect_err("it was ended");
    beside.roll_back().await;
    acquire(&store, &again(&running)).await;
    reader.leave().await;
}

/// As an owner to whom row-level security applies.
#[tokio::test]
async fn the_owner_moves_the_table_to_partitions() {
    let reader = Reader::with(Packs::Both).await;
    let move_it =
        statements_of("database").into_iter().find(|statements| statements.text.contains("move_to_partitions"));
    reader.run(&move_it.expect("the statement")).await;
    let counts =
        "SELECT count(*), (SELECT count(*) FROM pg_inherits WHERE inhparent = 'tenant.idempotency_keys'::regclass)
                  FROM tenant.idempotency_keys";
    let counts = reader.operated.superuser.query_one(counts, &[]).await.expect("the counts");
    assert_eq!((counts.get::<_, i64>(0), counts.get::<_, i64>(1)), (2, 16));
    acquire(&reader.operated.store, &any()).await;
    let late = reader.operated.store.complete(&reader.stuck.reservation, &completion("late")).await;
    assert_eq!(late.expect("the store answers"), CompleteOutcome::Completed);
    reader.leave().await;
}

/// As pg_dump reads the table.
#[tokio::test]
async fn the_backup_role_reads_all_rows_and_the_owner_cannot() {
    let reader = Reader::with(Packs::Both).await;
    for statements in statements_of("operations") {
        if statements.text.contains("my_backup_role") {
            reader.run(&statements).await;
        }
    }
    let backup = reader.operated.database.login(reader.name("my_backup_role")).await;
    let dump = "SET row_security = off; SELECT * FROM tenant.idempotency_keys";
    let rows = backup.simple_query(dump).await.expect("all rows");
    assert_eq!(rows.iter().filter(|row| matches!(row, SimpleQueryMessage::Row(_))).count(), 2);
    let error = reader.owner.simple_query(dump).await.expect_err("row-level security is forced");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    drop(backup);
    reader.leave().await;
}
