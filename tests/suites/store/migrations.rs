//! The migrations: run by the crate or as plain SQL, repeatedly, concurrently, and on an existing table.

use tonic_idempotency::migrations::{self, Migration};

use crate::prelude::*;

/// The folder of the sample's migrations.
const ORGANIZATION: &str = "examples/organization/migrations";

pub(crate) fn files(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let paths = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "sql")).collect();
    // V10 is after V9, also for those that a runner finds by number.
    paths.sort_by_key(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let number = name.trim_start_matches('V').split("__").next().and_then(|number| number.parse::<u64>().ok());
        (number, name)
    });
    paths.iter().map(|path| fs::read_to_string(path).expect("a file")).collect()
}

/// The files of the core, each with the names that a migration has: PostgreSQL's own.
pub(crate) fn core() -> Vec<String> {
    let named = |file| format!("SET search_path = pg_catalog, pg_temp;\n{file}\nRESET search_path;");
    files("migrations/core").into_iter().map(named).collect()
}

/// Tables, columns, constraints, indexes, policies and functions, one a line.
pub(crate) async fn schema(client: &Client) -> Vec<String> {
    let sql = "SELECT format('column %s.%s %s %s', attrelid::regclass, attname, atttypid::regtype, attnotnull)
             FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
             WHERE relnamespace::regnamespace::text IN ('tenant', 'authn', 'authz') AND relkind IN ('r', 'p') AND attnum > 0
             UNION ALL SELECT format('constraint %s %s', conrelid::regclass, pg_get_constraintdef(oid))
             FROM pg_constraint WHERE connamespace::regnamespace::text IN ('tenant', 'authn', 'authz')
             UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname IN ('tenant', 'authn', 'authz')
             UNION ALL SELECT format('policy %s %s %s %s', tablename, policyname, qual, with_check) FROM pg_policies
             UNION ALL SELECT CASE proname WHEN 'idempotency_seed' THEN 'the seed' ELSE pg_get_functiondef(oid) END FROM pg_proc
             WHERE pronamespace::regnamespace::text IN ('tenant', 'authn', 'authz')
             ORDER BY 1";
    values(client, sql).await
}

/// Asserts that a record can be completed, replayed and swept.
pub(crate) async fn works(database: &Database) {
    let api_store = PostgresStore::new(database.pool(2), ResourceTypes::none());
    let claim = new_claim();
    complete(&api_store, &claim, &completion("done")).await;
    replay_of(&api_store, &claim).await;
    assert_eq!(api_store.sweep(10).await.expect("the store answers"), 0);
}

#[tokio::test]
async fn plain_sql_gives_the_same_schema_as_the_crate() {
    let (ran, plain) = (Database::empty().await, Database::empty().await);
    let mut client = ran.owner().await;
    organization::migrations::run(&mut client).await.expect("the migrations");

    let owner = plain.owner().await;
    for files in [core(), files(ORGANIZATION)] {
        for file in files {
            owner.batch_execute(&file).await.expect("a migration");
        }
    }

    let (ran, made) = (schema(&client).await, schema(&owner).await);
    assert!(ran.len() > 100, "{} lines", ran.len());
    assert_eq!(ran, made);

    // Run again, the core migrations change nothing: what was registered and replaced since stays.
    for file in core() {
        owner.batch_execute(&file).await.expect("a migration");
    }
    assert_eq!(schema(&owner).await, made);
}

/// The application's migrations may follow on the same connection, with names of its own.
#[tokio::test]
async fn leave_the_settings_of_the_session_as_they_were() {
    let (_database, owner) = Database::empty_with_owner().await;
    owner.batch_execute("SET search_path = authn, public").await.expect("a setting");
    let schema = Schema::default();
    let all = migrations::all(&schema);
    let packs = [migrations::limits_sql(&schema), migrations::partition_sql(&schema, 2)];
    for sql in all.iter().map(Migration::sql).chain(packs.iter().map(String::as_str)) {
        for sql in [sql.to_owned(), format!("BEGIN; {sql}; COMMIT")] {
            execute(&owner, &sql).await;
            assert_eq!(value::<String>(&owner, "SHOW search_path").await, "authn, public", "{}", &sql[..80]);
        }
    }
}

/// A database with the migrations, and the tables of two types, which are not registered yet.
pub(crate) async fn with_billing() -> (Database, ResourceTypes) {
    let (database, types) = with_tables().await;
    let mut owner = database.owner().await;
    migrate(&mut owner, &Schema::default()).await;
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    (database, types)
}

/// A database with nothing but the tables of two types.
pub(crate) async fn with_tables() -> (Database, ResourceTypes) {
    let database = Database::empty().await;
    let sql = "CREATE SCHEMA billing;
             CREATE TABLE billing.invoices (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
             CREATE TABLE billing.refunds (id uuid PRIMARY KEY DEFAULT gen_random_uuid());";
    database.owner().await.batch_execute(sql).await.expect("the tables");
    let types = ResourceTypes::new([
        ResourceType::new("invoice", "invoice_id", "billing.invoices"),
        ResourceType::new("refund", "refund_id", "billing.refunds"),
    ]);
    (database, types)
}

/// The names of the types that are registered.
pub(crate) async fn registered(client: &Client) -> Vec<String> {
    values(client, "SELECT name FROM tenant.idempotency_resource_types ORDER BY name").await
}

#[tokio::test]
async fn registers_all_types_of_an_application_at_once() {
    let (database, types) = with_billing().await;
    let (mut one, mut other) = (database.owner().await, database.owner().await);
    let reversed = ResourceTypes::new(types.iter().cloned().collect::<Vec<_>>().into_iter().rev());
    let default = Schema::default();
    let (first, second) = tokio::join!(
        migrations::register(&mut one, &default, &types),
        migrations::register(&mut other, &default, &reversed)
    );
    first.expect("the registration");
    second.expect("the registration");
    assert_eq!(registered(&one).await, ["invoice", "refund"]);
}

#[tokio::test]
async fn registers_a_type_again_whose_table_is_another() {
    let (database, types) = with_billing().await;
    let mut owner = database.owner().await;
    migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
    let before = schema(&owner).await;
    execute(&owner, "DROP TABLE billing.refunds CASCADE; CREATE TABLE billing.refunds (id uuid PRIMARY KEY);").await;
    assert_ne!(schema(&owner).await, before, "the foreign key is gone");
    migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
    assert_eq!(schema(&owner).await, before);
}

#[tokio::test]
async fn registers_no_type_if_one_has_no_table() {
    let (database, types) = with_billing().await;
    let mut owner = database.owner().await;
    let before = schema(&owner).await;
    let missing = ResourceType::new("receipt", "receipt_id", "billing.receipts");
    let types = ResourceTypes::new(types.iter().cloned().chain([missing]));
    migrations::register(&mut owner, &Schema::default(), &types).await.expect_err("there is no such table");
    assert!(registered(&owner).await.is_empty());
    assert_eq!(schema(&owner).await, before);
}

#[tokio::test]
async fn the_sample_registers_the_types_that_it_lists() {
    let (_database, mut owner) = Database::with_owner().await;
    let types = organization::resource_types();
    assert_eq!(registered(&owner).await, types.iter().map(ResourceType::name).collect::<Vec<_>>());
    let before = schema(&owner).await;
    migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
    assert_eq!(schema(&owner).await, before, "with the same columns and tables");
}

#[tokio::test]
async fn a_row_has_one_outcome_and_refers_to_one_resource_at_most() {
    let (database, owner) = Database::with_owner().await;
    let project = format!(
        "response_bytes, project_id, cluster_id) SELECT id, id, '/a/b', '', now(), '', '{}'",
        database.project(None).await.id
    );
    let outcomes = |outcomes| {
        format!("response_bytes, error_bytes, outcome_unknown) SELECT id, id, '/a/b', '', now(), {outcomes}")
    };
    for (row, constraint) in [
        (format!("{project}, (SELECT id FROM tenant.clusters)"), "idempotency_keys_ck_one_resource"),
        (outcomes("'r', 'e', false"), "idempotency_keys_ck_one_outcome"),
        (outcomes("'r', NULL, true"), "idempotency_keys_ck_one_outcome"),
        (outcomes("NULL, 'e', true"), "idempotency_keys_ck_one_outcome"),
    ] {
        let insert = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires";
        let insert = format!("{insert}, {row} FROM gen_random_uuid() id");
        let error = owner.execute(&insert, &[]).await.expect_err(&row);
        assert_eq!(error.as_db_error().and_then(|error| error.constraint()), Some(constraint), "{row}");
    }
}

/// The server makes the id of a reservation, the client that of a record in a transaction.
#[tokio::test]
async fn the_ids_of_rows_are_uuids_of_version_7() {
    let (database, owner) = Database::with_owner().await;
    let store = database.store();
    acquire(&store, &new_claim()).await;
    let transaction = open_transaction(&store, &new_claim()).await;
    transaction.commit(Some(completion("done"))).await.expect("a commit");

    let made = "SELECT tenant.idempotency_uuidv7() FROM generate_series(1, 100) UNION ALL SELECT id FROM tenant.idempotency_keys";
    let ids: Vec<Uuid> = values(&owner, made).await;
    assert_eq!(ids.len(), 102);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
    for id in ids {
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let (seconds, _) = id.get_timestamp().expect("a time").to_unix();
        assert!(now.abs_diff(seconds) < 3600, "{id}");
    }
}
