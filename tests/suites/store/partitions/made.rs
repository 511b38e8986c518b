//! New tables.

use super::{PARTITIONS, claims, count, partitioned, partitions, plain, statements_for_several_calls_work};
use crate::migrations::{schema, with_tables, works};
use crate::prelude::*;

#[tokio::test]
async fn spread_users_over_their_partitions() {
    let database = partitioned().await;
    let owner = database.owner().await;
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
    let store = patient(database.pool(2));
    for claim in claims(64) {
        acquire(&store, &claim).await;
    }
    let used = "SELECT count(DISTINCT tableoid) FROM tenant.idempotency_keys";
    assert_eq!(count(&owner, used).await, i64::from(PARTITIONS));
    works(&database).await;
    store.verify().await.expect_err("the types of the sample are not registered");
    PostgresStore::new(database.pool_of_login(1).await, ResourceTypes::none()).verify().await.expect("it is set up");
}

#[tokio::test]
async fn serve_statements_for_several_calls() {
    let database = partitioned().await;
    statements_for_several_calls_work(&database).await;
    // The planner expects another table then.
    let analyse = "DELETE FROM tenant.idempotency_keys; VACUUM (ANALYZE) tenant.idempotency_keys";
    for statement in analyse.split(';') {
        database.owner().await.batch_execute(statement).await.expect("an empty table");
    }
    statements_for_several_calls_work(&database).await;
}

/// With an equality in a policy, the partitions would be chosen before the first row.
#[tokio::test]
async fn need_policies_that_choose_no_partitions() {
    let database = plain().await;
    let owner = database.owner().await;
    execute(&owner, "CREATE POLICY own ON tenant.idempotency_keys USING (user_id = authn.current_user_id())").await;
    migrations::partition(&owner, &Schema::default(), PARTITIONS).await.expect("the partitions");
    let policies = "SELECT count(*) FROM pg_policies WHERE tablename = 'idempotency_keys' AND policyname = 'idempotency_keys_owner_policy'
                    AND qual LIKE '((user_id >= %) AND (user_id <= %))' AND qual NOT LIKE '%user_id = %'";
    assert_eq!(count(&owner, policies).await, 1);
    let policies = "SELECT count(*) FROM pg_policies WHERE tablename = 'idempotency_keys' AND policyname <> 'idempotency_keys_owner_policy'
                    AND qual NOT LIKE '%CASE%'";
    assert_eq!(count(&owner, policies).await, 0);
}

#[tokio::test]
async fn have_a_number_of_partitions_that_is_checked() {
    let database = plain().await;
    let owner = database.owner().await;
    for number in [0, 1, 257, u16::MAX] {
        migrations::partition(&owner, &Schema::default(), number).await.expect_err("the number");
        migrations::move_to_partitions(&owner, &Schema::default(), number).await.expect_err("the number");
    }
    assert_eq!(partitions(&owner).await, 0);
    migrations::partition(&owner, &Schema::default(), 2).await.expect("the partitions");
    let before = schema(&owner).await;
    migrations::partition(&owner, &Schema::default(), 2).await.expect("nothing to do");
    migrations::move_to_partitions(&owner, &Schema::default(), 2).await.expect("nothing to do");
    assert_eq!(schema(&owner).await, before);
    migrations::partition(&owner, &Schema::default(), 4).await.expect_err("another number");
    migrations::move_to_partitions(&owner, &Schema::default(), 4).await.expect_err("another number");
    migrations::run(&mut database.owner().await, &Schema::default()).await.expect("the migrations run again");
    assert_eq!(schema(&owner).await, before);
}

#[tokio::test]
async fn are_made_of_empty_ones_alone() {
    let database = plain().await;
    let owner = database.owner().await;
    let claim = new_claim();
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    complete(&store, &claim, &completion("stays")).await;
    migrations::partition(&owner, &Schema::default(), PARTITIONS).await.expect_err("it has a record");
    replay_of(&store, &claim).await;
}

#[tokio::test]
async fn are_made_by_several_servers_at_once() {
    let database = plain().await;
    let (one, other) = (database.owner().await, database.owner().await);
    let schema = Schema::default();
    let (first, second) = tokio::join!(
        migrations::partition(&one, &schema, PARTITIONS),
        migrations::partition(&other, &schema, PARTITIONS)
    );
    first.expect("the partitions");
    second.expect("the partitions");
    works(&database).await;
}

/// No role reads a partition past the policies of the table: neither the API's role, to which only the table is granted, nor a role to
/// which a partition is granted, nor the owner.
#[tokio::test]
async fn show_nobody_a_row_past_the_tables_policies() {
    let database = Database::empty().await;
    let superuser = database.owner().await;
    let (role, mut owner) = plain_owner(&database).await;
    execute(&owner, &format!("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {API_ROLE}")).await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::partition(&owner, &Schema::default(), PARTITIONS).await.expect("the partitions");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    for claim in claims(32) {
        acquire(&store, &claim).await;
    }

    assert_eq!(count(&superuser, "SELECT count(*) FROM tenant.idempotency_keys").await, 32);
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, 0, "row-level security is forced");
    let api = database.api().await;
    for partition in 0..PARTITIONS {
        let select = format!("SELECT count(*) FROM tenant.idempotency_keys_p{partition}");
        assert!(count(&superuser, &select).await > 0, "{partition}");
        assert_eq!(count(&owner, &select).await, 0, "{partition}");
        api.query_typed(&select, &[]).await.expect_err("no right");
        execute(&owner, &format!("GRANT ALL ON tenant.idempotency_keys_p{partition} TO {API_ROLE}")).await;
        assert_eq!(count(&api, &select).await, 0, "{partition}");
    }
    drop_roles(&superuser, &[&role]).await;
}

#[tokio::test]
async fn take_resource_types_before_and_after_and_keep_them_when_they_are_moved() {
    for (before, moved) in [(true, false), (false, false), (true, true)] {
        let (database, types) = with_tables().await;
        let mut owner = database.owner().await;
        let schema = Schema::default();
        migrations::run(&mut owner, &schema).await.expect("the migrations run");
        if before {
            migrations::register(&mut owner, &schema, &types).await.expect("the registration");
        }
        if !moved {
            migrations::partition(&owner, &schema, PARTITIONS).await.expect("the partitions");
        }
        migrations::register(&mut owner, &schema, &types).await.expect("the registration");
        migrations::grant(&owner, &schema, API_ROLE).await.expect("the grant");
        let store = PostgresStore::new(database.pool(1), types.clone());
        let id: Uuid = value(&owner, "INSERT INTO billing.invoices DEFAULT VALUES RETURNING id").await;
        let of_invoice = async |id: Uuid| {
            let resource = Some(Resource { resource_type: "invoice".to_owned(), id: id.into() });
            let claim = Claim { resource_type: Some("invoice".to_owned()), ..new_claim() };
            complete(&store, &claim, &Completion { resource, ..completion("done") }).await;
            claim
        };
        let first = of_invoice(id).await;
        if moved {
            migrations::move_to_partitions(&owner, &schema, PARTITIONS).await.expect("the way over");
        }
        for (resource, what) in [(Some(id.into()), "its invoice"), (None, "a deleted invoice")] {
            assert_eq!(replay_of(&store, &first).await.resource, resource, "{what}, {before}, {moved}");
            owner.batch_execute("DELETE FROM billing.invoices").await.expect("the invoice goes, with its table's lock");
        }
        of_invoice(Uuid::new_v4()).await;
        statements_for_several_calls_work(&database).await;
        PostgresStore::new(database.pool_of_login(1).await, types).verify().await.expect("it is set up");
        owner.batch_execute("TRUNCATE billing.invoices CASCADE").await.expect("nothing old refers to it");
    }
}

#[tokio::test]
async fn have_the_names_of_their_schema() {
    for moved in [false, true] {
        let (database, mut owner) = Database::empty_with_owner().await;
        let schema = Schema::new("My-Tenant").and_then(|schema| schema.table("Keys")).expect("names");
        migrations::run(&mut owner, &schema).await.expect("the migrations run");
        migrations::grant(&owner, &schema, API_ROLE).await.expect("the grant");
        let store = PostgresStore::new(database.pool(1), ResourceTypes::none()).schema(schema.clone());
        let claims = claims(2);
        if moved {
            complete(&store, &claims[0], &completion("done")).await;
            migrations::move_to_partitions(&owner, &schema, PARTITIONS).await.expect("the way over");
        } else {
            migrations::partition(&owner, &schema, PARTITIONS).await.expect("the partitions");
            complete(&store, &claims[0], &completion("done")).await;
        }
        complete(&store, &claims[1], &completion("done")).await;
        for claim in &claims {
            replay_of(&store, claim).await;
        }
        let rows = r#"SELECT count(*) FROM "My-Tenant"."Keys" k JOIN pg_inherits i ON i.inhrelid = k.tableoid"#;
        assert_eq!(count(&owner, rows).await, 2);
    }
}

/// A view would go on showing the old table.
#[tokio::test]
async fn are_not_made_past_what_depends_on_the_table() {
    let database = plain().await;
    let owner = database.owner().await;
    owner.batch_execute("CREATE VIEW public.keys AS SELECT id FROM tenant.idempotency_keys").await.expect("a view");
    let error = migrations::partition(&owner, &Schema::default(), PARTITIONS).await.expect_err("the view");
    assert!(of_server(&error).message().contains("view public.keys"), "{error:?}");
    owner.batch_execute("DROP VIEW public.keys").await.expect("no view");
    migrations::partition(&owner, &Schema::default(), PARTITIONS).await.expect("the partitions");
}
