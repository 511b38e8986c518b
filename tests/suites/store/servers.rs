//! The parts of the migrations that depend on the server's version.

use crate::prelude::*;
use crate::{
    migrations::{core, works},
    registration::versions,
};

/// The function, as the migrations make it on an older server.
const OLDER: &str =
    "CREATE OR REPLACE FUNCTION tenant.idempotency_uuidv7() RETURNS uuid LANGUAGE sql RETURN gen_random_uuid()";

async fn run(owner: &mut Client) {
    migrations::run(owner, &Schema::default()).await.expect("the migrations run");
}

/// The body of the function that makes the ids of records.
async fn body(client: &Client) -> String {
    value(client, "SELECT pg_get_function_sqlbody('tenant.idempotency_uuidv7()'::regprocedure)").await
}

async fn has_uuidv7(client: &Client) -> bool {
    value(client, "SELECT current_setting('server_version_num')::integer >= 180000").await
}

#[tokio::test]
async fn of_version_18_make_the_ids_themselves_and_those_that_were_upgraded_after_the_next_run() {
    let (database, mut owner) = Database::empty_with_owner().await;
    let has_uuidv7 = has_uuidv7(&owner).await;
    run(&mut owner).await;
    let made = body(&owner).await;
    assert!(if has_uuidv7 { made == "RETURN uuidv7()" } else { made.contains("gen_random_uuid()") }, "{made}");
    owner.batch_execute(OLDER).await.expect("the function of an older server");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    run(&mut owner).await;
    assert_eq!(body(&owner).await, if has_uuidv7 { "RETURN uuidv7()" } else { "RETURN gen_random_uuid()" });
    works(&database).await;
    let before = versions(&owner).await;
    run(&mut owner).await;
    assert_eq!(versions(&owner).await, before);
}

/// The role may run the migrations again. At first the function is another role's; then it is its own, in a schema that is not.
#[tokio::test]
async fn that_were_upgraded_keep_a_function_that_the_role_may_not_replace() {
    let (database, mut owner) = Database::empty_with_owner().await;
    run(&mut owner).await;
    owner.batch_execute(OLDER).await.expect("the function of an older server");
    let role = "idempotency_tests_reader";
    let mut other = database.login(role).await;
    let grant = format!(
        "GRANT USAGE ON SCHEMA tenant TO {role}; GRANT SELECT ON tenant.idempotency_migrations TO {role};
         GRANT EXECUTE ON FUNCTION tenant.idempotency_adapt() TO {role}"
    );
    owner.batch_execute(&grant).await.expect("the grants");

    run(&mut other).await;
    assert_eq!(body(&owner).await, "RETURN gen_random_uuid()");

    execute(&owner, &format!("ALTER FUNCTION tenant.idempotency_uuidv7() OWNER TO {role}")).await;
    run(&mut other).await;
    assert_eq!(body(&owner).await, "RETURN gen_random_uuid()");
}

/// Later than any version that there is, in place of the oldest that is supported.
const FUTURE: &str = "9990000";

#[tokio::test]
async fn that_are_too_old_are_refused_and_nothing_is_made() {
    let (_database, owner) = Database::empty_with_owner().await;
    for migration in migrations::all(&Schema::default()) {
        assert_eq!(migration.sql().matches("140000").count(), 1, "{}", migration.name());
        let error = owner.batch_execute(&migration.sql().replace("140000", FUTURE)).await.expect_err("a refusal");
        assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
        let version: String = value(&owner, "SHOW server_version").await;
        let expected =
            format!("tonic-idempotency needs PostgreSQL 14 or later, and this server is PostgreSQL {version}");
        assert_eq!(error.as_db_error().map(|error| error.message()), Some(expected.as_str()));
    }
    let made = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('tenant', 'authn')";
    assert_eq!(value::<i64>(&owner, made).await, 0);
}

#[tokio::test]
async fn without_uuidv7_get_a_function_in_its_place() {
    let (_database, owner) = Database::empty_with_owner().await;
    for file in core() {
        // A function that no server has stands for the one that older servers have not.
        let file = file.replace("pg_catalog.uuidv7()", "pg_catalog.uuidv0()");
        owner.batch_execute(&file).await.expect("the core's migrations");
    }
    assert!(body(&owner).await.contains("gen_random_uuid()"));
    let version = "SELECT get_byte(uuid_send(tenant.idempotency_uuidv7()), 6) >> 4";
    assert_eq!(value::<i32>(&owner, version).await, 7);
    // The part of the time is that of the server's clock, in milliseconds.
    let near = "SELECT abs(('x' || encode(substring(uuid_send(tenant.idempotency_uuidv7()) FROM 1 FOR 6), 'hex'))::bit(48)::bigint
                - 1000 * date_part('epoch', clock_timestamp())) < $1";
    assert!(owner.query_typed_one(near, &[(&60_000_f64, Type::FLOAT8)]).await.expect("an id").get::<_, bool>(0));
}
