//! Row-level security, on the API's own role.

use tokio_postgres::Client;
use tonic_idempotency::{
    UserId,
    store::{AbandonedQuery, ClaimOutcome, CompleteOutcome, ReleaseOutcome, Reservation, Store, StoredResponse},
};
use tonic_idempotency_tests::{API_ROLE, Database};
use uuid::Uuid;

use crate::record::{PROCEDURE, acquire, again, claim, complete, completion};

async fn count(client: &Client, from: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {from}"), &[]).await.expect("the count").get(0)
}

#[tokio::test]
async fn the_api_role_is_not_a_superuser_and_owns_nothing() {
    let database = Database::new().await;
    let row = database
        .api()
        .await
        .query_one(
            "SELECT rolsuper OR rolbypassrls, (SELECT count(*) FROM pg_class WHERE relowner = r.oid), current_user::text
             FROM pg_roles r WHERE rolname = current_user",
            &[],
        )
        .await
        .expect("the role");
    assert_eq!((row.get(0), row.get(1), row.get(2)), (false, 0_i64, API_ROLE));
}

#[tokio::test]
async fn another_user_neither_sees_nor_touches_a_row_and_is_not_blocked_by_it() {
    let database = Database::new().await;
    let store = database.store();
    let (alice, bob, key) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    let reserved = claim(alice, key);
    acquire(&store, &reserved).await;

    // As bob, with alice's own token.
    let stolen = Reservation { user: UserId::new(bob), ..reserved.reservation };
    let outcome = store.complete(&stolen, &completion("bob's")).await.expect("the store answers");
    assert_eq!(outcome, CompleteOutcome::Fenced);
    assert_eq!(store.release(&stolen).await.expect("the store answers"), ReleaseOutcome::NotHeld);

    let mut api = database.api().await;
    let transaction = api.transaction().await.expect("a transaction");
    transaction
        .execute("SELECT set_config('app.current_user_id', $1, true)", &[&bob.to_string()])
        .await
        .expect("the user is set");
    for statement in [
        "SELECT FROM tenant.idempotency_keys",
        "UPDATE tenant.idempotency_keys SET response_bytes = ''",
        "UPDATE tenant.idempotency_keys SET token = NULL WHERE response_bytes IS NULL",
        "DELETE FROM tenant.idempotency_keys",
    ] {
        assert_eq!(transaction.execute(statement, &[]).await.expect(statement), 0, "{statement}");
    }
    transaction.commit().await.expect("the commit");

    // The same key is bob's own, and alice's is untouched.
    complete(&store, &claim(bob, key), &completion("bob's")).await;
    store.complete(&reserved.reservation, &completion("alice's")).await.expect("the store answers");
    for (user, message) in [(alice, "alice's"), (bob, "bob's")] {
        match store.claim(&claim(user, key)).await.expect("the store answers") {
            ClaimOutcome::Replay(replay) => assert_eq!(replay.response, StoredResponse::message(message)),
            other => panic!("expected a replay, got {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_row_of_another_user_cannot_be_written() {
    let database = Database::new().await;
    let mut api = database.api().await;
    let transaction = api.transaction().await.expect("a transaction");
    transaction
        .execute("SELECT set_config('app.current_user_id', $1, true)", &[&Uuid::new_v4().to_string()])
        .await
        .expect("the user is set");
    let error = transaction
        .execute(
            "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
             VALUES (gen_random_uuid(), gen_random_uuid(), '', '', now() + interval '1 hour')",
            &[],
        )
        .await
        .expect_err("a row of another user");
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE));
}

#[tokio::test]
async fn no_row_is_visible_without_a_user() {
    let database = Database::new().await;
    let store = database.store();
    complete(&store, &claim(Uuid::new_v4(), Uuid::new_v4()), &completion("done")).await;
    acquire(&store, &claim(Uuid::new_v4(), Uuid::new_v4())).await;
    assert_eq!(count(&database.owner().await, "tenant.idempotency_keys").await, 2);

    let api = database.api().await;
    assert_eq!(count(&api, "tenant.idempotency_keys").await, 0);
    // The same if an application clears the setting by emptying it.
    api.batch_execute("SET app.current_user_id = ''").await.expect("the setting");
    assert_eq!(count(&api, "tenant.idempotency_keys").await, 0);
    for statement in ["UPDATE tenant.idempotency_keys SET response_bytes = ''", "DELETE FROM tenant.idempotency_keys"] {
        assert_eq!(api.execute(statement, &[]).await.expect(statement), 0, "{statement}");
    }
}

#[tokio::test]
async fn row_level_security_binds_the_owner_of_the_table_too() {
    let database = Database::new().await;
    complete(&database.store(), &claim(Uuid::new_v4(), Uuid::new_v4()), &completion("done")).await;
    let owner = database.owner().await;
    owner
        .batch_execute(&format!("ALTER TABLE tenant.idempotency_keys OWNER TO {API_ROLE}"))
        .await
        .expect("the owner changes");
    assert_eq!(count(&database.api().await, "tenant.idempotency_keys").await, 0);
}

#[tokio::test]
async fn a_recycled_connection_carries_no_user_and_nothing_else() {
    let database = Database::new().await;
    // One connection for all users.
    let pool = database.pool(1);
    let store = tonic_idempotency::store::PostgresStore::new(pool.clone(), organization::resource_types());
    let first = claim(Uuid::new_v4(), Uuid::new_v4());
    let owner = database.owner().await;
    let unset = async || {
        let connection = pool.get().await.expect("the connection");
        // First, before the queries below prepare statements of their own.
        let prepared = "SELECT count(*) FROM pg_prepared_statements";
        let prepared: i64 = connection.query_typed_one(prepared, &[]).await.expect("the count").get(0);
        assert_eq!(prepared, 0);
        let open = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
        let open: i64 = owner.query_one(open, &[]).await.expect("the count").get(0);
        assert_eq!(open, 0);
        let settings = "SELECT current_setting('search_path'), current_setting('app.idempotency_sight', true)";
        let settings = connection.query_typed_one(settings, &[]).await.expect("the settings");
        assert_eq!(settings.get::<_, &str>(0), "\"$user\", public");
        assert_eq!(settings.get::<_, Option<&str>>(1).unwrap_or_default(), "");
        let user: Option<Uuid> =
            connection.query_typed_one("SELECT authn.current_user_id()", &[]).await.expect("the user").get(0);
        assert_eq!(user, None);
        let seen = "SELECT count(*) FROM tenant.idempotency_keys";
        let seen: i64 = connection.query_typed_one(seen, &[]).await.expect("the count").get(0);
        assert_eq!(seen, 0);
    };

    acquire(&store, &first).await;
    unset().await;
    store.complete(&first.reservation, &completion("done")).await.expect("the store answers");
    unset().await;
    store.claim(&again(&first)).await.expect("the store answers");
    unset().await;
    store.release(&first.reservation).await.expect("the store answers");
    unset().await;
    store.sweep(10).await.expect("the store answers");
    unset().await;
    let all = AbandonedQuery { procedures: vec![PROCEDURE.to_owned()], lookback: None, max_attempts: 10, batch: 10 };
    store.abandoned(&all).await.expect("the store answers");
    unset().await;
}
