//! The status that comes with a replay, and lookups of it that fail.

use crate::prelude::*;

/// The replay of a call whose project is completed, after `breaking` was run on the database.
async fn replay_after(breaking: &str, setup: &str) -> Replay {
    let database = Database::new().await;
    let pool = database.pool_with(1, setup);
    let store = patient(pool);
    let claim = new_claim();
    let project = database.project(Some(OutboxStatus::Completed)).await;
    complete(&store, &claim, &Completion { resource: Some(project), ..completion("first") }).await;
    // Open for as long as the replay takes, so that a lock holds.
    let owner = database.owner().await;
    let sql = format!("BEGIN; {breaking}; {}", if breaking.contains("LOCK") { "" } else { "COMMIT" });
    owner.batch_execute(&sql).await.expect(breaking);
    replay_of(&store, &claim).await
}

#[tokio::test]
async fn does_not_fail_the_replay_whatever_is_wrong_with_the_outbox() {
    let slow = "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text)
                RETURNS text LANGUAGE sql AS $$ SELECT 'completed'::text FROM pg_sleep(600) $$";
    for (breaking, setup, code) in [
        ("DROP TABLE authz.outbox", "", "42P01"),
        ("REVOKE SELECT ON authz.outbox FROM idempotency_tests_api", "", "42501"),
        ("REVOKE USAGE ON SCHEMA authz FROM idempotency_tests_api", "", "42501"),
        ("LOCK TABLE authz.outbox IN ACCESS EXCLUSIVE MODE", "", "55P03"),
        (
            "ALTER TABLE authz.outbox DROP CONSTRAINT outbox_ck_status; UPDATE authz.outbox SET status = 'done'",
            "",
            "done",
        ),
        (slow, "SET statement_timeout = '300ms'", "57014"),
    ] {
        let error = replay_after(breaking, setup).await.status.expect_err(breaking).to_string();
        assert!(error.contains(code), "{breaking}: {error}");
    }
}

#[tokio::test]
async fn is_found_without_scanning_the_outbox() {
    let database = Database::new().await;
    let project = database.project(Some(OutboxStatus::Completed)).await;
    let owner = database.owner().await;
    let sql = "INSERT INTO tenant.projects (organization_id, cluster_id, name)
             SELECT organization_id, id, 'a' FROM tenant.clusters, generate_series(1, 5000);
             ANALYZE authz.outbox";
    execute(&owner, sql).await;
    let api = database.api().await;
    // In one transaction: `rows_read` counts the rows of the current one.
    api.batch_execute("BEGIN").await.expect("a transaction");
    for resource_type in organization::resource_types().iter() {
        let before = rows_read(&api, "authz.outbox").await;
        api.execute("SELECT tenant.idempotency_resource_status($1, gen_random_uuid()::text)", &[&resource_type.name()])
            .await
            .expect("the look-up");
        assert_eq!(rows_read(&api, "authz.outbox").await, before, "{}", resource_type.name());
    }
    // And one row if there is one.
    let before = rows_read(&api, "authz.outbox").await;
    api.execute("SELECT tenant.idempotency_resource_status('project', $1)", &[&project.id.to_text()])
        .await
        .expect("the look-up");
    assert_eq!(rows_read(&api, "authz.outbox").await, before + 1);
}
