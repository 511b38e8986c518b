//! A database, and what the migrations may change in it.

use scratch_postgres::TestDatabase;
use tokio_postgres::{Client, types::Type};
use tonic_idempotency::{
    migrations,
    store::{ResourceType, ResourceTypes, Schema},
};

/// The role of the API, and the options that write what it needs.
pub(crate) const ROLE: &str = "idempotency_runners_api";
pub(crate) const OPTIONS: [&str; 2] =
    ["--resource-type=invoice:invoice_id:billing.invoices", "--grant=idempotency_runners_api"];

pub(crate) fn types() -> ResourceTypes {
    ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")])
}

/// Makes an empty database, on a server that has the API's role.
pub(crate) async fn empty() -> (TestDatabase, Client) {
    let database = scratch_postgres::database(None).await;
    let owner = database.connect().await;
    let create_role = format!(
        "DO $$ BEGIN CREATE ROLE {ROLE} NOLOGIN;
         EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    );
    owner.batch_execute(&create_role).await.expect("the role");
    (database, owner)
}

/// Does what a server does at its start without a runner of its own.
pub(crate) async fn migrate(owner: &mut Client, schema: &Schema) {
    migrations::run(owner, schema).await.expect("the migrations run");
    migrations::register(owner, schema, &types()).await.expect("the registration");
    migrations::grant(owner, schema, ROLE).await.expect("the grant");
}

/// The rows of the catalogue and of the layer's own tables that migrations may change, as their versions.
pub(crate) async fn versions(owner: &Client, schema: &Schema) -> Vec<String> {
    let all = format!(
        "WITH schemas AS (SELECT oid, xmin FROM pg_namespace WHERE nspname IN ('{name}', 'authn')),
              relations AS (SELECT c.oid, c.xmin FROM pg_class c JOIN schemas s ON s.oid = c.relnamespace)
         SELECT concat(a.xmin) FROM schemas a
         UNION ALL SELECT concat(a.xmin) FROM relations a
         UNION ALL SELECT concat(a.xmin) FROM pg_attribute a JOIN relations r ON r.oid = a.attrelid
         UNION ALL SELECT concat(a.xmin) FROM pg_constraint a JOIN relations r ON r.oid = a.conrelid
         UNION ALL SELECT concat(a.xmin) FROM pg_policy a JOIN relations r ON r.oid = a.polrelid
         UNION ALL SELECT concat(a.xmin) FROM pg_proc a JOIN schemas s ON s.oid = a.pronamespace
         UNION ALL SELECT concat(a.xmin) FROM \"{name}\".idempotency_migrations a
         UNION ALL SELECT concat(a.xmin) FROM \"{name}\".idempotency_resource_types a
         ORDER BY 1",
        name = schema.name()
    );
    texts(owner, &all).await
}

/// Asserts that the database has all migrations, the type and the grants, and that the constraints are validated.
pub(crate) async fn is_complete(owner: &Client, schema: &Schema) {
    let name = schema.name();
    let ran = texts(owner, &format!("SELECT name FROM \"{name}\".idempotency_migrations ORDER BY version")).await;
    assert_eq!(ran, migrations::all(schema).iter().map(|known| known.name()).collect::<Vec<_>>());

    let table = format!("\"{name}\".\"{}\"", schema.table_name());
    let missing = [
        format!("SELECT * FROM \"{name}\".idempotency_missing_grants('{ROLE}')"),
        format!("SELECT * FROM \"{name}\".idempotency_unregistered('invoice', 'invoice_id', 'billing.invoices')"),
        format!("SELECT conname::text FROM pg_constraint WHERE conrelid = '{table}'::regclass AND NOT convalidated"),
    ];
    for missing in missing {
        assert_eq!(texts(owner, &missing).await, Vec::<String>::new(), "{missing}");
    }
}

async fn texts(owner: &Client, query: &str) -> Vec<String> {
    let none: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 0] = [];
    owner.query_typed(query, &none).await.expect(query).iter().map(|row| row.get(0)).collect()
}
