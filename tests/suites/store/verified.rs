//! The problems that `verify` finds and `run` repairs: in migrations, routines, owners, settings, and the calls themselves.

use tonic_idempotency_tests::{Lines, partition};
use tracing::level_filters::LevelFilter;

use crate::prelude::*;
use crate::settings::everything::{database_name, try_to_set};

/// The rows of a user, which nothing but the sweep touches; two of them have expired.
const ROWS: &str = "SELECT k::text FROM tenant.idempotency_keys k ORDER BY 1";

/// Counts the reservations that the recovery finds.
const FIND: &str = "SELECT count(*)
                    FROM tenant.idempotency_abandoned(ARRAY['/organization.v1.ProjectService/CreateProject'], NULL, 10, 10, NULL, 10)";

async fn store(database: &Database) -> PostgresStore {
    PostgresStore::new(database.pool_of_login(2).await, ResourceTypes::none())
}

/// A database with the core's migrations, run by a role of its own, which is no superuser, and a second such role.
async fn with_owners() -> (Database, Client, [String; 2]) {
    let database = Database::empty().await;
    let (one, mut client) = plain_owner(&database).await;
    let (other, _) = plain_owner(&database).await;
    migrations::run(&mut client, &Schema::default()).await.expect("the migrations run");
    partition(&client, &Schema::default()).await;
    migrations::grant(&client, &Schema::default(), API_ROLE).await.expect("the grant");
    execute(&client, "RESET ROLE").await;
    (database, client, [one, other])
}

/// A reservation of a user whose lease has ended, and a record that has expired.
async fn one_stuck_and_one_expired(store: &PostgresStore, client: &Client) -> Claim {
    let [stuck, expired] = [(); 2].map(|()| new_claim());
    let stuck = Claim { lease: std::time::Duration::ZERO, resource_type: None, ..stuck };
    acquire(store, &stuck).await;
    complete(store, &Claim { resource_type: None, ..expired.clone() }, &completion("gone")).await;
    let expire = format!(
        "UPDATE tenant.idempotency_keys SET expires = now() - interval '1 day' WHERE idempotency_key = '{}'",
        expired.reservation.key.as_uuid()
    );
    execute(client, &expire).await;
    stuck
}

#[tokio::test]
async fn are_all_migrations_or_it_says_which_are_missing() {
    let database = Database::empty().await;
    let (store, owner) = (store(&database).await, database.owner().await);
    let all = migrations::all(&Schema::default());
    for (number, migration) in (1..).zip(&all) {
        execute(&owner, migration.sql()).await;
        if number == 9 {
            migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
        }
        let found = problems(&store).await;
        let missing: Vec<_> = (number + 1..=9).collect();
        let told = found.iter().find_map(|problem| match problem {
            SetupProblem::MissingMigrations { versions } => Some(versions.clone()),
            _ => None,
        });
        assert_eq!(told.unwrap_or_default(), missing, "{number}: {found:?}");
        if number == 9 {
            assert_eq!(found, []);
        }
    }
    execute(&owner, "DELETE FROM tenant.idempotency_migrations WHERE version IN (3, 7)").await;
    assert_eq!(problems(&store).await, [SetupProblem::MissingMigrations { versions: vec![3, 7] }]);
    assert!(
        store.verify().await.expect_err("two are missing").to_string().contains("lacks migrations 3, 7; as the owner")
    );
}

#[tokio::test]
async fn are_all_routines_and_each_that_is_missing_is_named() {
    let database = Database::empty().await;
    let (store, mut owner) = (store(&database).await, database.owner().await);
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    let routines = "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'tenant'::regnamespace";
    let routines: Vec<String> = values(&owner, routines).await;
    assert!(routines.len() > 70);
    for routine in routines {
        let (name, parameters) = routine.split_once('(').expect("a routine");
        execute(&owner, &format!("ALTER ROUTINE {routine} RENAME TO gone")).await;
        let found = problems(&store).await;
        let is_told = found.iter().any(|problem| match problem {
            SetupProblem::MissingRoutine { routine, .. } => routine == name,
            _ => false,
        });
        assert!(is_told, "{name}: {found:?}");
        execute(
            &owner,
            &format!("ALTER ROUTINE tenant.gone({parameters} RENAME TO {}", name.trim_start_matches("tenant.")),
        )
        .await;
    }
    assert_eq!(problems(&store).await, []);
    // Dropped routines are made again as the message says.
    execute(&owner, "DROP PROCEDURE tenant.idempotency_write_many, tenant.idempotency_sweep").await;
    assert_eq!(problems(&store).await.len(), 2);
    execute(&owner, "DELETE FROM tenant.idempotency_migrations WHERE version IN (5, 8)").await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    assert_eq!(problems(&store).await, []);
}

/// Each change of owner, by a superuser: the whole, only the table, and only a function. {one} owns everything, and {other} nothing.
const CHANGES: [&str; 8] = [
    "REASSIGN OWNED BY {one} TO {other}",
    "ALTER TABLE tenant.idempotency_keys OWNER TO {other}",
    "ALTER FUNCTION tenant.idempotency_sweep_rows OWNER TO {other}",
    "ALTER FUNCTION tenant.idempotency_abandoned OWNER TO {other}",
    "ALTER FUNCTION tenant.idempotency_list OWNER TO {other}",
    "ALTER FUNCTION tenant.idempotency_state OWNER TO {other}",
    "ALTER TABLE tenant.idempotency_audit OWNER TO {other}",
    "ALTER POLICY idempotency_keys_sweep_policy ON tenant.idempotency_keys TO {other}",
];

#[tokio::test]
async fn is_the_owner_and_what_hangs_on_it_is_made_right_by_the_migrations() {
    for change in CHANGES {
        let (database, mut client, roles) = with_owners().await;
        let store = store(&database).await;
        assert_eq!(problems(&store).await, [], "{change}");
        let change = change.replace("{one}", &roles[0]).replace("{other}", &roles[1]);
        execute(&client, &change).await;
        let found = problems(&store).await;
        assert!(matches!(found[..], [SetupProblem::OtherOwner { .. }]), "{change}: {found:?}");

        let stuck = one_stuck_and_one_expired(&store, &client).await;
        if change.starts_with("REASSIGN") {
            // It fails, and does not find nothing.
            store.sweep(10).await.expect_err("the new owner sees nothing");
            let error = database.api().await.query(FIND, &[]).await.expect_err("the new owner sees nothing");
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{error:?}");
            execute(&client, &format!("SET ROLE {}", roles[1])).await;
        }
        migrations::run(&mut client, &Schema::default()).await.expect("the migrations run");
        execute(&client, "RESET ROLE").await;
        // No role but the owner has the sight of the sweep, whatever it sets.
        let api = database.api().await;
        for sight in ["sweep", "recovery", "copy"] {
            execute(&api, &format!("SET app.idempotency_sight = '{sight}'")).await;
            assert_eq!(values::<String>(&api, ROWS).await, [""; 0], "{sight}");
        }
        assert_eq!(values::<String>(&client, ROWS).await.len(), 2);
        assert_eq!(store.sweep(10).await.expect("a sweep"), 1, "{change}");
        let found = format!(
            "SELECT count(*) FROM tenant.idempotency_list() WHERE key_id = '{}'",
            stuck.reservation.key.as_uuid()
        );
        assert_eq!(value::<i64>(&client, &found).await, 1, "{change}");
        assert_eq!(value::<i64>(&database.api().await, FIND).await, 1, "{change}");
        assert_eq!(problems(&store).await, [], "{change}");
        drop_roles(&client, &roles.each_ref().map(String::as_str)).await;
    }
}

#[tokio::test]
async fn are_the_calls_and_nothing_of_them_stays() {
    let (database, client, roles) = with_owners().await;
    let store = store(&database).await;
    let [one, other] = [(); 2].map(|()| any());
    acquire(&store, &one).await;
    complete(&store, &other, &completion("done")).await;
    let before: Vec<String> = values(&client, ROWS).await;
    let (first, second) = tokio::join!(problems(&store), problems(&store));
    assert_eq!((first, second), (vec![], vec![]));
    assert_eq!(values::<String>(&client, ROWS).await, before);
    drop_roles(&client, &roles.each_ref().map(String::as_str)).await;
}

/// Changes that break the setup, each with the call that then fails.
const BROKEN: [(&str, &str); 7] = [
    ("ALTER TABLE tenant.idempotency_keys RENAME COLUMN arrival_hash TO other", "a claim"),
    ("ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT odd CHECK (response_bytes IS NULL)", "a record"),
    ("CREATE POLICY odd ON tenant.idempotency_keys AS RESTRICTIVE FOR DELETE USING (false)", "a release"),
    (
        "CREATE OR REPLACE FUNCTION tenant.idempotency_sweep_rows(p_batch integer, OUT deleted bigint, INOUT reached text DEFAULT NULL)
         LANGUAGE sql SECURITY DEFINER AS 'SELECT 0::bigint, NULL::text'",
        "the sweep",
    ),
    (
        "CREATE POLICY odd ON tenant.idempotency_keys AS RESTRICTIVE FOR SELECT USING (current_setting('app.idempotency_sight', true) IS DISTINCT FROM 'recovery')",
        "the recovery",
    ),
    (
        "CREATE OR REPLACE FUNCTION tenant.idempotency_act_for_many() RETURNS text LANGUAGE sql AS 'SELECT tenant.gone()'",
        "claims together",
    ),
    (
        "CREATE OR REPLACE FUNCTION tenant.idempotency_limit_idle(p_limit double precision) RETURNS text LANGUAGE sql AS 'SELECT (1/0)::text'",
        "a transaction",
    ),
];

/// Each sweeps the rows of the others.
#[tokio::test]
async fn are_the_calls_of_many_processes_that_start_at_once() {
    let database = Database::new().await;
    for _ in 0..4 {
        let stores = join_all((0..8).map(|_| store(&database))).await;
        assert_eq!(join_all(stores.iter().map(problems)).await.concat(), []);
    }
}

#[tokio::test]
async fn are_the_calls_and_it_says_which_does_not_work() {
    for (broken, call) in BROKEN {
        let (database, client, roles) = with_owners().await;
        execute(&client, "SET check_function_bodies = off").await;
        execute(&client, broken).await;
        let found = problems(&store(&database).await).await;
        let is_told =
            |problem: &SetupProblem| matches!(problem, SetupProblem::FailedCall { call: failed, .. } if failed == call);
        assert!(found.iter().any(is_told), "{broken}: {found:?}");
        drop_roles(&client, &roles.each_ref().map(String::as_str)).await;
    }
}

/// An adopted table may refer to the application's users.
#[tokio::test]
async fn are_not_the_calls_if_a_constraint_allows_no_rows_of_another_owner() {
    let (database, client, roles) = with_owners().await;
    execute(&client, "ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT users CHECK (user_id = '00000000-0000-0000-0000-00000000000a')").await;
    assert_eq!(problems(&store(&database).await).await, []);
    drop_roles(&client, &roles.each_ref().map(String::as_str)).await;
}

#[tokio::test]
async fn are_the_settings_with_which_calls_do_not_work() {
    let settings = [
        ("default_transaction_read_only", "on"),
        ("exit_on_error", "on"),
        ("idempotency.owner", "somebody"),
        ("row_security", "off"),
        ("session_replication_role", "replica"),
    ];
    for (name, value) in settings {
        let (database, client, roles) = with_owners().await;
        let setting = format!("{name} = '{value}'");
        try_to_set(&client, &database_name(&client).await, &setting).await.expect("a setting");
        let expected = SetupProblem::Setting { name: name.to_owned(), value: value.to_owned() };
        assert_eq!(problems(&store(&database).await).await, [expected]);
        drop_roles(&client, &roles.each_ref().map(String::as_str)).await;
    }
    // Of the pool.
    let (database, client, roles) = with_owners().await;
    let pool = database.pool_with(1, "SET client_encoding = 'LATIN1'");
    let found = problems(&PostgresStore::new(pool, ResourceTypes::none())).await;
    let expected = SetupProblem::Setting { name: "client_encoding".to_owned(), value: "LATIN1".to_owned() };
    assert!(found.contains(&expected), "{found:?}");
    drop_roles(&client, &roles.each_ref().map(String::as_str)).await;
}

/// With calls in both databases, one key would run twice.
#[tokio::test]
async fn warns_of_a_table_that_a_subscription_writes() {
    let [database, other] = [Database::new().await, Database::new().await];
    let [owner, other_owner] = [database.owner().await, other.owner().await];
    let name = format!("idempotency_tests_{}", Uuid::new_v4().simple());
    execute(&other_owner, &format!("CREATE PUBLICATION {name} FOR TABLE tenant.idempotency_keys")).await;
    let warned = async || {
        let (lines, _guard) = Lines::collect(LevelFilter::INFO);
        assert_eq!(problems(&store(&database).await).await, []);
        lines.count("a subscription writes the table of keys")
    };
    assert_eq!(warned().await, 0);
    let subscribe = format!(
        "CREATE SUBSCRIPTION {name} CONNECTION '{}' PUBLICATION {name}
         WITH (slot_name = NONE, create_slot = false, enabled = false, copy_data = false)",
        other.url()
    );
    execute(&owner, &subscribe).await;
    assert_eq!(warned().await, 1);
    execute(&owner, &format!("DROP SUBSCRIPTION {name}")).await;
}

/// PostgreSQL only warns.
#[tokio::test]
async fn are_the_grants_by_a_role_that_may_not_grant() {
    let (_database, client, roles) = with_owners().await;
    let [owner, other] = &roles;
    execute(
        &client,
        &format!(
            "GRANT USAGE ON SCHEMA tenant, authn TO {other}; GRANT ALL ON ALL TABLES IN SCHEMA tenant TO {other};
             GRANT EXECUTE ON ALL ROUTINES IN SCHEMA tenant, authn TO {other};
             SET ROLE {other}"
        ),
    )
    .await;
    let another = format!("idempotency_tests_{}", Uuid::new_v4().simple());
    for grants in [true, false] {
        execute(&client, &format!("RESET ROLE; CREATE ROLE {another}; SET ROLE {other}")).await;
        let granted = if grants {
            migrations::grant(&client, &Schema::default(), &another).await
        } else {
            migrations::grant_operator(&client, &Schema::default(), &another).await
        };
        let error = granted.expect_err("it may not grant");
        let error = of_server(&error);
        assert!(error.message().starts_with(&format!("the role {other} may not grant {another}")), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.starts_with(&format!("Grant as {owner}, "))), "{error:?}");
        execute(&client, &format!("RESET ROLE; DROP ROLE {another}")).await;
    }
    drop_roles(&client, &roles.each_ref().map(String::as_str)).await;
}
