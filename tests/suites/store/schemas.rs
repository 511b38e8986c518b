//! Other names of the schema and of the table: the conformance suite on a schema beside the default one, and several of
//! them in one database.

use tonic_idempotency::migrations::{self, Migration};

use crate::migrations::schema as lines;
use crate::prelude::*;

/// Names that have to be quoted.
fn odd() -> Schema {
    Schema::new("My-Tenant").and_then(|schema| schema.table("Keys-of-all")).expect("names")
}

/// Makes the schema in a database of the sample, beside the default one.
async fn make(database: &Database, schema: &Schema, types: &ResourceTypes) -> Client {
    let mut owner = database.owner().await;
    migrate(&mut owner, schema).await;
    migrations::register(&mut owner, schema, types).await.expect("the registration");
    migrations::grant(&owner, schema, API_ROLE).await.expect("the grant");
    owner
}

struct Odd;

impl Harness for Odd {
    type Store = PostgresStore;
    type Fixture = Database;

    async fn store(&self) -> (PostgresStore, Database) {
        let database = Database::new().await;
        let owner = make(&database, &odd(), &organization::resource_types()).await;
        owner
            .batch_execute(
                r#"CREATE OR REPLACE FUNCTION "My-Tenant".idempotency_resource_status(p_resource_type text, p_resource text)
                   RETURNS text LANGUAGE sql STABLE RETURN tenant.idempotency_resource_status(p_resource_type, p_resource)"#,
            )
            .await
            .expect("the status");
        (database.store().schema(odd()), database)
    }

    async fn resource(&self, _: &PostgresStore, database: &Database, status: Option<OutboxStatus>) -> Resource {
        database.project(status).await
    }
}

conformance_tests!(Odd);

/// The numbers of rows in the tables of these schemas.
async fn rows(owner: &Client, schemas: &[Schema]) -> Vec<i64> {
    let mut rows = Vec::new();
    for schema in schemas {
        let count = format!("SELECT count(*) FROM \"{}\".\"{}\"", schema.name(), schema.table_name());
        rows.push(value(owner, &count).await);
    }
    rows
}

#[tokio::test]
async fn several_are_in_one_database_and_share_nothing() {
    let (database, owner) = Database::with_owner().await;
    let before = lines(&owner).await;
    let schemas =
        [Schema::default(), odd(), Schema::new("billing").expect("a name"), Schema::new("select").expect("one")];
    let project = database.project(None).await;
    let first = new_claim();
    for (number, schema) in schemas.iter().enumerate() {
        // Only the sample's own schema has a function that knows their status.
        let untracked =
            |known: &ResourceType| ResourceType::new(known.name(), known.column(), known.table().expect("a table"));
        let types = ResourceTypes::new(organization::resource_types().iter().map(untracked));
        make(&database, schema, &types).await;
        make(&database, schema, &types).await;
        let store = PostgresStore::new(database.pool_of_login(2).await, types).timeout(Duration::from_secs(30));
        let store = store.schema(schema.clone());
        store.verify().await.expect("the schema is set up");
        // The same key is free in each.
        let created = Completion { resource: Some(project.clone()), ..completion("done") };
        complete(&store, &first, &created).await;
        replay_of(&store, &first).await;
        // A transaction of each holds a lock of its own.
        let begun = claim(*first.reservation.owner.as_uuid(), Uuid::from_u128(7));
        commit(&store, &begun, created).await;
        let mut expected = vec![2; number + 1];
        assert_eq!(rows(&owner, &schemas[..=number]).await, expected);
        // Its sweep reads its own table.
        acquire(&store, &new_claim()).await;
        let expire = format!("UPDATE \"{}\".\"{}\" SET expires = now()", schema.name(), schema.table_name());
        owner.batch_execute(&expire).await.expect("time");
        assert_eq!(store.sweep(10).await.expect("the store answers"), 3);
        expected[number] = 0;
        assert_eq!(rows(&owner, &schemas[..=number]).await, expected);
        complete(&store, &first, &completion("done")).await;
        complete(&store, &begun, &completion("done")).await;
    }
    let policies =
        |lines: Vec<String>| lines.into_iter().filter(|line| !line.starts_with("policy ")).collect::<Vec<_>>();
    assert_eq!(policies(lines(&owner).await), policies(before), "the default one is as it was");
}

/// Of every definition in the schema, none leads into another schema of the layer.
#[tokio::test]
async fn has_no_name_of_the_default_schema_in_it() {
    let database = Database::empty().await;
    let owner = make(&database, &odd(), &ResourceTypes::none()).await;
    let exists = owner.query_one("SELECT to_regnamespace('tenant') IS NOT NULL", &[]).await.expect("the catalogue");
    assert!(!exists.get::<_, bool>(0), "the default schema was made, too");
    let sql = "SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = '\"My-Tenant\"'::regnamespace
             UNION ALL SELECT concat(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) FROM pg_policy
             UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint
             WHERE connamespace = '\"My-Tenant\"'::regnamespace";
    let definitions: Vec<String> = values(&owner, sql).await;
    assert!(definitions.len() > 25, "{}", definitions.len());
    for definition in definitions {
        let code: String = definition.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
        assert!(!code.contains("tenant."), "{definition}");
    }
    // Packs have numbers from 101.
    let history = "SELECT name FROM \"My-Tenant\".idempotency_migrations WHERE version < 101 ORDER BY version";
    assert_eq!(
        values::<String>(&owner, history).await,
        migrations::all(&odd()).iter().map(Migration::name).collect::<Vec<_>>()
    );
}

/// The SQL for another migration tool makes the same schema as the crate.
#[tokio::test]
async fn is_made_by_plain_sql_too() {
    let (ran, plain) = (Database::empty().await, Database::empty().await);
    let ran = make(&ran, &odd(), &ResourceTypes::none()).await;
    let plain = plain.owner().await;
    for migration in migrations::all(&odd()) {
        plain.batch_execute(migration.sql()).await.expect("a migration");
    }
    if let Some(partitions) = partitions() {
        plain.batch_execute(&migrations::partition_sql(&odd(), partitions)).await.expect("the partitions");
    }
    plain.batch_execute(&migrations::grant_sql(&odd(), API_ROLE)).await.expect("the grant");
    let functions = "SELECT pg_get_functiondef(p.oid) FROM pg_proc p
                     WHERE p.pronamespace = '\"My-Tenant\"'::regnamespace AND p.proname <> 'idempotency_seed' ORDER BY 1";
    assert_eq!(values::<String>(&ran, functions).await, values::<String>(&plain, functions).await);
}

#[tokio::test]
async fn an_existing_table_with_another_name_is_adopted() {
    let (database, mut owner) = Database::empty_with_owner().await;
    let sql = "CREATE SCHEMA shop;
             CREATE TABLE shop.operations (
                 id uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY, idempotency_key uuid NOT NULL,
                 user_id uuid NOT NULL, procedure text NOT NULL, request_hash bytea NOT NULL, response_bytes bytea,
                 created timestamptz NOT NULL DEFAULT now(), expires timestamptz NOT NULL,
                 UNIQUE (user_id, idempotency_key)
             );
             CREATE TABLE shop.orders (id uuid PRIMARY KEY);";
    execute(&owner, sql).await;
    let old = new_claim();
    insert_into(&owner, "shop.operations", &old, Some("old")).await;
    let schema = Schema::new("shop").and_then(|schema| schema.table("operations")).expect("names");
    let types = ResourceTypes::new([ResourceType::new("order", "order_id", "shop.orders")]);
    migrations::run(&mut owner, &schema).await.expect("the migrations run");
    for resource_type in types.iter() {
        owner.batch_execute(&resource_type.registration_sql(&schema)).await.expect("the registration");
    }
    migrations::grant(&owner, &schema, API_ROLE).await.expect("the grant");
    let store = PostgresStore::new(database.pool_of_login(1).await, types).schema(schema.clone());
    store.verify().await.expect("the schema is set up");
    replay_of(&store, &old).await;
    complete(&store, &new_claim(), &completion("done")).await;
    assert_eq!(rows(&owner, &[schema]).await, [2]);
}

/// A store that was given other names than its database says so.
#[tokio::test]
async fn a_store_with_other_names_than_its_database_does_not_find_its_table() {
    let database = Database::new().await;
    let store = PostgresStore::new(database.pool_of_login(1).await, ResourceTypes::none()).schema(odd());
    let (problems, table) = (problems(&store).await, "\"My-Tenant\".\"Keys-of-all\"".to_owned());
    assert!(problems.contains(&SetupProblem::MissingTable { table }), "{problems:?}");
    store.claim(&new_claim()).await.expect_err("there is no such schema");
}
