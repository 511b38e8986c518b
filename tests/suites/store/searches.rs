//! The search for abandoned reservations, of which there are a few among many outcomes.

use crate::prelude::*;

/// Fills the table with outcomes, and with an abandoned reservation at each of these places.
async fn fill(database: &Database, outcomes: i64, abandoned: &[i64]) {
    let sql = "INSERT INTO tenant.idempotency_keys
                 (id, idempotency_key, user_id, procedure, request_hash, response_bytes, token, lease_expires, expires)
             SELECT tenant.idempotency_uuidv7(), gen_random_uuid(), gen_random_uuid(), $3, sha256(''),
                    CASE WHEN n <> ALL ($2::bigint[]) THEN 'done'::bytea END, gen_random_uuid(), now() - interval '1 s', now() + interval '1 hour'
             FROM generate_series(1, $1::bigint) n ORDER BY n";
    database.owner().await.execute(sql, &[&outcomes, &abandoned, &PROCEDURE]).await.expect("the rows");
}

/// A statement ends when its time is over, however many outcomes there are, and the next begins where it ended.
#[tokio::test]
async fn are_made_page_by_page() {
    let database = Database::new().await;
    fill(&database, 12_000, &[1, 4_999, 5_000, 5_001, 11_999]).await;
    let api = database.api().await;
    let page = "SELECT (SELECT count(*) FROM page WHERE user_id IS NOT NULL), (SELECT max(reached::text) FROM page)
                FROM (VALUES (1)) v";
    let mut reached: Option<String> = None;
    let mut found = Vec::new();
    loop {
        let statement = format!(
            "WITH page AS MATERIALIZED (
                 SELECT * FROM tenant.idempotency_abandoned(ARRAY['{PROCEDURE}'], NULL, 10, 10, $1::text::uuid, 0)
             ) {page}"
        );
        let row = api.query_one(&statement, &[&reached]).await.expect("a page");
        found.push(row.get::<_, i64>(0));
        reached = row.get(1);
        if reached.is_none() {
            break;
        }
    }
    assert_eq!(found.iter().sum::<i64>(), 5);
    assert!((3..=4).contains(&found.len()), "each page has 5,000 rows: {found:?}");

    // The store asks for all of them. Here none has the time for a second one.
    let owner = database.owner().await;
    let sql = "ALTER FUNCTION tenant.idempotency_abandoned RENAME TO idempotency_search;
             CREATE FUNCTION tenant.idempotency_abandoned(
                 text[], double precision, integer, integer, uuid, double precision
             ) RETURNS TABLE (
                 user_id uuid, idempotency_key uuid, procedure text, request_hash bytea, arrival_hash bytea, reached uuid
             ) LANGUAGE sql SECURITY DEFINER AS 'SELECT * FROM tenant.idempotency_search($1, $2, $3, $4, $5, 0)'";
    execute(&owner, sql).await;
    let store = patient(database.pool(1));
    for batch in [3, 10] {
        let found = store.abandoned(&AbandonedQuery { batch, ..search() }).await.expect("the store answers");
        assert_eq!(found.len(), usize::try_from(batch.min(5)).expect("a few"));
    }
}
