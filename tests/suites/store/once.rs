//! Each migration is run once, by the crate or by any other runner of its SQL.

use crate::prelude::*;
use crate::{
    migrations::{registered, with_tables, works},
    registration::versions,
};

/// Nor do they wait for a lock.
#[tokio::test]
async fn change_nothing_after_another_runner_or_the_crate_has_run_them() {
    let schema = Schema::default();
    for by_crate in [false, true] {
        let (database, mut owner) = Database::empty_with_owner().await;
        if by_crate {
            migrations::run(&mut owner, &schema).await.expect("the migrations run");
        } else {
            run_as_another(&owner).await.expect("the migrations");
        }
        let before = versions(&owner).await;
        let locks = database.owner().await;
        let lock =
            "BEGIN; LOCK TABLE tenant.idempotency_keys, tenant.idempotency_migrations IN SHARE ROW EXCLUSIVE MODE;
                    SELECT pg_advisory_xact_lock(7594306392365691953)";
        if by_crate {
            execute(&locks, lock).await;
        }
        execute(&owner, "SET lock_timeout = '1s'").await;
        run_as_another(&owner).await.expect("the migrations");
        execute(&locks, "ROLLBACK").await;
        migrations::run(&mut owner, &schema).await.expect("the migrations run");
        assert_eq!(versions(&owner).await, before, "{by_crate}");
        migrations::grant(&owner, &schema, API_ROLE).await.expect("the grant");
        works(&database).await;
    }
}

async fn run_as_another(runner: &Client) -> Result<(), Error> {
    for migration in migrations::all(&Schema::default()) {
        runner.batch_execute(migration.sql()).await?;
    }
    Ok(())
}

/// The one that waits has looked for the schema before it was there.
#[tokio::test]
async fn wait_for_a_server_that_runs_them_and_find_them_done() {
    let database = Database::empty().await;
    let (one, other, observer) = (database.owner().await, database.owner().await, database.owner().await);
    execute(&one, "BEGIN").await;
    run_as_another(&one).await.expect("the migrations");
    let second = tokio::spawn(async move { run_as_another(&other).await });
    until_held(&observer).await;
    execute(&one, "COMMIT").await;
    let before = versions(&observer).await;
    second.await.expect("no panic").expect("the migrations are done");
    assert_eq!(versions(&observer).await, before);
}

/// If an older migration ran again, it would undo a newer one.
#[tokio::test]
async fn leave_what_was_made_since() {
    let (_database, mut owner) = Database::empty_with_owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    let newer = "CREATE OR REPLACE FUNCTION tenant.idempotency_version() RETURNS integer LANGUAGE sql AS 'SELECT 999';
                 INSERT INTO tenant.idempotency_migrations (version, name, checksum) VALUES (999, 'newer', '')";
    owner.batch_execute(newer).await.expect("a newer version");
    let before = versions(&owner).await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    assert_eq!(versions(&owner).await, before);
}

#[tokio::test]
async fn are_refused_if_the_database_has_them_with_other_sql() {
    let (_database, mut owner) = Database::empty_with_owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    let before = versions(&owner).await;
    let renamed = Schema::default().table("operations").expect("a name");
    let error = migrations::run(&mut owner, &renamed).await.expect_err("the table has another name");
    assert_eq!(of_server(&error).message(), "migration 1 of tonic-idempotency, table, was run with other SQL");
    assert_eq!(versions(&owner).await, before);
}

/// A failed migration leaves nothing, and is run again.
#[tokio::test]
async fn leave_nothing_if_they_fail() {
    let (database, mut owner) = Database::empty_with_owner().await;
    execute(&owner, "CREATE SCHEMA tenant; CREATE VIEW tenant.idempotency_keys AS SELECT 1 AS one").await;
    migrations::run(&mut owner, &Schema::default()).await.expect_err("a view is in the way");
    let made = "SELECT to_regclass('tenant.idempotency_migrations') IS NULL, current_setting('search_path')";
    let row = owner.query_one(made, &[]).await.expect("the catalogue");
    assert_eq!((row.get(0), row.get(1)), (true, "\"$user\", public"));
    owner.batch_execute("DROP VIEW tenant.idempotency_keys").await.expect("it goes");
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    works(&database).await;
}

/// Each does everything that a server does at its start.
#[tokio::test]
async fn run_register_and_grant_at_six_servers_at_once() {
    let (database, types) = with_tables().await;
    let mut servers = JoinSet::new();
    for _ in 0..6 {
        let (mut client, types) = (database.owner().await, types.clone());
        servers.spawn(async move {
            let schema = Schema::default();
            migrations::run(&mut client, &schema).await.expect("the migrations run");
            migrations::register(&mut client, &schema, &types).await.expect("the registration");
            migrations::grant(&client, &schema, API_ROLE).await.expect("the grant");
        });
    }
    servers.join_all().await;
    let mut owner = database.owner().await;
    let before = versions(&owner).await;
    assert_eq!(registered(&owner).await, ["invoice", "refund"]);
    works(&database).await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    assert_eq!(versions(&owner).await, before, "a seventh changes nothing");
}
