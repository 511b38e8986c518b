//! The table is read by its index of keys, whatever its size and statistics are.

use std::future::poll_fn;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::AsyncMessage;

use super::statements::{self, Outcome};
use crate::prelude::*;

/// Makes a connection send the plans of all statements that it executes.
const EXPLAIN: &str =
    "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
                       SET auto_explain.log_verbose = on; SET client_min_messages = log";

/// A policy beside the layer's own: the planner knows less of a row that either shows.
const ADDED: &str = "CREATE POLICY added ON tenant.idempotency_keys USING (user_id = authn.current_user_id())";

/// Of the table, or of its partitions.
const NO_AUTOVACUUM: &str = "
    DO $$
    DECLARE
        v_table regclass;
    BEGIN
        FOR v_table IN
            SELECT c.oid FROM pg_class c
            WHERE c.relkind = 'r' AND (c.oid = 'tenant.idempotency_keys'::regclass
                  OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'tenant.idempotency_keys'::regclass))
        LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', v_table);
        END LOOP;
    END $$";

/// The index of keys: of the table, and, as far as their names are equal, of its partitions.
const INDEXES: [&str; 2] = ["using idempotency_keys_uq_key_user", "_user_id_idempotency_key_key on "];

/// A connection of the API's role, and the plans that its statements have.
async fn explained(database: &Database) -> (Client, UnboundedReceiver<String>) {
    let config: Config = database.url().parse().expect("an address");
    let (client, mut connection) = config.connect(NoTls).await.expect("a connection");
    let (sender, plans) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message
                && notice.message().contains("plan:")
            {
                let _ = sender.send(notice.message().to_owned());
            }
        }
    });
    client.batch_execute(&format!("{EXPLAIN}; SET ROLE {API_ROLE}")).await.expect("the settings");
    (client, plans)
}

/// Returns the plans that have come so far.
fn taken(plans: &mut UnboundedReceiver<String>) -> Vec<String> {
    std::iter::from_fn(|| plans.try_recv().ok()).filter(|plan| plan.contains("idempotency_keys")).collect()
}

fn calls(number: usize) -> Vec<Claim> {
    (0..number).map(|_| new_claim()).collect()
}

/// Fills the table with records of others.
async fn fill(database: &Database, rows: i32) {
    let insert = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, expires)
                  SELECT gen_random_uuid(), gen_random_uuid(), '/', '', '', now() + interval '1 day' FROM generate_series(1, $1)";
    database.owner().await.query_typed(insert, &[(&rows, Type::INT4)]).await.expect("many rows");
}

async fn assert_uses_the_index(client: &Client, plans: &mut UnboundedReceiver<String>, what: &str) {
    for number in [1, 3, 64] {
        let claims = calls(number);
        let all: Vec<_> = claims.iter().collect();
        let reservations: Vec<_> = claims.iter().map(|claim| claim.reservation).collect();
        taken(plans);
        statements::look(client, &all).await.expect("a look");
        statements::reserve(client, &all).await.expect("a reservation");
        statements::complete(client, &reservations, &vec![Outcome::DONE; number]).await.expect("a completion");
        let others: Vec<_> = claims.iter().map(again).collect();
        statements::look(client, &others.iter().collect::<Vec<_>>()).await.expect("a look");
        let plans = taken(plans);
        assert_eq!(plans.len(), 4, "{what}: {plans:#?}");
        for plan in plans {
            for worse in [
                "Seq Scan",
                "Bitmap",
                "Hash",
                "Merge",
                "Memoize",
                "Materialize",
                "Function Scan on tenant.idempotency_look",
            ] {
                assert!(!plan.contains(worse), "{what}, {number}: {plan}");
            }
            let is_insert = plan.contains("Conflict Resolution: NOTHING");
            let has_index = plan.contains("Index Scan") && INDEXES.iter().any(|index| plan.contains(index));
            assert!(is_insert || has_index, "{what}, {number}: {plan}");
            let is_change = plan.contains("Update on") || plan.contains("Delete on");
            // In a partition, a row is changed where the index finds it again.
            let is_direct = plan.contains("Tid Scan") || partitions().is_some();
            assert!(!is_change || is_direct, "{what}, {number}: {plan}");
        }
    }
}

#[tokio::test]
async fn look_rows_up_by_index_whatever_the_statistics_are() {
    let (database, owner) = Database::with_owner().await;
    owner.batch_execute(NO_AUTOVACUUM).await.expect("no autovacuum");
    for (rows, what) in [(0, "empty"), (3, "small"), (20_000, "large")] {
        for (analysed, added) in [(false, false), (true, false), (false, true), (true, true)] {
            owner.batch_execute("TRUNCATE tenant.idempotency_keys").await.expect("an empty table");
            fill(&database, rows).await;
            if analysed {
                owner.batch_execute("VACUUM ANALYZE tenant.idempotency_keys").await.expect("statistics");
                // PostgreSQL reads a file without a page as a whole, whatever it expects, and a partition of one page of which it expects
                // one row.
                fill(&database, if partitions().is_some() { 3_000 } else { 1 }).await;
            }
            owner.batch_execute("DROP POLICY IF EXISTS added ON tenant.idempotency_keys").await.expect("no policy");
            if added {
                owner.batch_execute(ADDED).await.expect("a policy");
            }
            let (client, mut plans) = explained(&database).await;
            let what = format!("{what}, analysed: {analysed}, policy: {added}");
            assert_uses_the_index(&client, &mut plans, &what).await;
        }
    }
}

/// Prepared, the look is planned once for all numbers of keys: a plan for each would cost more than the look.
#[tokio::test]
async fn of_a_prepared_look_are_made_once_for_all_numbers_of_keys() {
    let database = Database::new().await;
    fill(&database, 5_000).await;
    database.owner().await.batch_execute("ANALYZE tenant.idempotency_keys").await.expect("statistics");
    let api = database.api().await;
    let types =
        [Type::UUID_ARRAY, Type::UUID_ARRAY, Type::UUID_ARRAY, Type::TEXT_ARRAY, Type::UUID_ARRAY, Type::TEXT_ARRAY];
    let sql = "SELECT * FROM tenant.idempotency_look($1, $2, $3, $4, $5, $6)";
    let prepared = api.prepare_typed(sql, &types).await.expect("a statement");
    for number in [1, 1, 1, 1, 1, 1, 64, 1, 7, 1] {
        let ids: Vec<_> = (0..number).map(|_| Uuid::new_v4()).collect();
        let kinds = vec![Some("project"); number];
        api.query(&prepared, &[&ids, &ids, &ids, &kinds, &ids, &None::<Vec<String>>]).await.expect("a look");
    }
    let select = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement = $1";
    let row = api.query_typed_one(select, &[(&sql, Type::TEXT)]).await.expect("the statement");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5, 5), "after the five that PostgreSQL makes to compare");
}
