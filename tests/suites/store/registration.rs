//! The locks that the registration of resource types takes, and the indexes that it makes.

use crate::migrations::{schema, with_billing};
use crate::prelude::*;

/// The rows of the catalogue and of the layer's own tables that migrations and registrations may change, as their versions.
pub(crate) async fn versions(client: &Client) -> Vec<String> {
    let sql = "SELECT xmin::text FROM pg_class WHERE relnamespace = 'tenant'::regnamespace OR relname LIKE '%migrations'
             UNION ALL SELECT xmin::text FROM pg_constraint WHERE conrelid = 'tenant.idempotency_keys'::regclass
             UNION ALL SELECT xmin::text FROM pg_policy WHERE polrelid = 'tenant.idempotency_keys'::regclass
             UNION ALL SELECT xmin::text FROM pg_proc WHERE pronamespace IN ('tenant'::regnamespace, 'authn'::regnamespace)
             UNION ALL SELECT xmin::text FROM pg_namespace WHERE nspname IN ('tenant', 'authn')
             UNION ALL SELECT xmin::text FROM tenant.idempotency_resource_types
             ORDER BY 1";
    values(client, sql).await
}

/// Replicas register at start, while transactions that write to all of the tables are open.
#[tokio::test]
async fn changes_and_locks_nothing_if_the_types_are_registered() {
    let (database, types) = with_billing().await;
    let mut owner = database.owner().await;
    migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
    let open = "pg_constraint WHERE conrelid = 'tenant.idempotency_keys'::regclass AND NOT convalidated";
    assert_eq!(count(&owner, open).await, 0, "it has validated what it has added");
    let before = (schema(&owner).await, versions(&owner).await);
    let mut writer = database.owner().await;
    let open = writer.transaction().await.expect("a transaction");
    open.batch_execute(
        "LOCK TABLE tenant.idempotency_keys, tenant.idempotency_resource_types, billing.invoices, billing.refunds
         IN SHARE ROW EXCLUSIVE MODE",
    )
    .await
    .expect("the locks");
    owner.batch_execute("SET lock_timeout = '1s'").await.expect("the setting");
    migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration does not wait");
    for known in types.iter() {
        owner.batch_execute(&known.registration_sql(&Schema::default())).await.expect("the SQL does not wait");
    }
    open.rollback().await.expect("the locks go");
    assert_eq!((schema(&owner).await, versions(&owner).await), before);
}

/// An open transaction that has read the table keeps a new type from being registered, and claims go on meanwhile.
#[tokio::test]
async fn gives_up_on_a_lock_before_claims_have_waited_for_long() {
    let (database, _) = with_billing().await;
    let (mut owner, reader) = (database.owner().await, database.owner().await);
    execute(&reader, "BEGIN; LOCK TABLE tenant.idempotency_keys IN ACCESS SHARE MODE").await;
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    let types = ResourceTypes::new([ResourceType::new("receipt", "receipt_id", "billing.invoices")]);
    let registered = types.clone();
    let registration = tokio::spawn(async move {
        let ended = migrations::register(&mut owner, &Schema::default(), &registered).await;
        (owner, ended)
    });
    let mut claims = 0;
    while !registration.is_finished() {
        acquire(&store, &new_claim()).await;
        claims += 1;
    }
    let (mut owner, ended) = registration.await.expect("no panic");
    let error = ended.expect_err("the table is locked");
    assert_eq!(of_server(&error).code(), &SqlState::LOCK_NOT_AVAILABLE);
    assert!(claims > 1, "claims get through, with the default timeout");
    execute(&reader, "ROLLBACK").await;
    migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
}

/// A table is replaced by another of its name, as a migration that copies it does. The record of the old one fits if its resource was copied.
#[tokio::test]
async fn moves_the_foreign_key_to_the_table_that_has_the_name_now() {
    let schema = Schema::default();
    for (partitioned, fits) in [(false, true), (false, false), (true, true), (true, false)] {
        let (database, types) = with_billing().await;
        let mut owner = database.owner().await;
        migrations::register(&mut owner, &schema, &types).await.expect("the registration");
        if partitioned {
            migrations::partition(&owner, &schema, partitions().unwrap_or(2)).await.expect("the partitions");
        }
        let store = PostgresStore::new(database.pool_of_login(1).await, types.clone());
        let invoice = async || {
            let id: Uuid = value(&owner, "INSERT INTO billing.invoices DEFAULT VALUES RETURNING id").await;
            let resource = Some(Resource { resource_type: "invoice".to_owned(), id: id.into() });
            let claim = Claim { resource_type: Some("invoice".to_owned()), ..new_claim() };
            commit(&store, &claim, Completion { resource, ..completion("done") }).await;
            (claim, id)
        };
        let old = invoice().await;
        let copy = if fits { "INSERT INTO billing.invoices SELECT * FROM billing.invoices_old" } else { "" };
        let swap = format!(
            "ALTER TABLE billing.invoices RENAME TO invoices_old;
             CREATE TABLE billing.invoices (id uuid PRIMARY KEY DEFAULT gen_random_uuid()); {copy}"
        );
        owner.batch_execute(&swap).await.expect("another table");
        let told = store.verify().await.expect_err("the foreign key stays with the table").to_string();
        assert!(told.contains("invoice refer to billing.invoices_old") && told.lines().count() == 2, "{told}");

        let mut registering = database.owner().await;
        migrations::register(&mut registering, &schema, &types).await.expect("the registration");
        store.verify().await.expect("calls work");
        for (claim, id) in [invoice().await, old] {
            assert_eq!(replay_of(&store, &claim).await.resource, Some(id.into()), "{partitioned}, {fits}");
        }
        let keys = "SELECT concat(confrelid::regclass, ' ', convalidated) FROM pg_constraint
                    WHERE conrelid = 'tenant.idempotency_keys'::regclass AND conname = 'idempotency_keys_fk_invoice'";
        let keys: Vec<String> = values(&owner, keys).await;
        // Partitions have no foreign key that some rows do not fit.
        let partitioned = partitioned || partitions().is_some();
        let expected: &[&str] = match (partitioned, fits) {
            (_, true) => &["billing.invoices t"],
            (false, false) => &["billing.invoices f"],
            (true, false) => &[],
        };
        assert_eq!(keys, expected);
        if !fits {
            let moved = migrations::move_to_partitions(&owner, &schema, 2).await;
            assert!(partitioned || moved.is_err(), "a record does not fit");
            owner.batch_execute("UPDATE tenant.idempotency_keys SET invoice_id = NULL").await.expect("they expire");
            migrations::register(&mut registering, &schema, &types).await.expect("the registration");
            let keys = "SELECT FROM pg_constraint WHERE conname = 'idempotency_keys_fk_invoice' AND convalidated";
            assert!(!owner.query(keys, &[]).await.expect("a key").is_empty());
        }
    }
}
