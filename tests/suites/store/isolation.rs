//! Row-level security, on the API's own role.

use crate::{bouncer::left, prelude::*};

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
    let (database, store) = Database::with_store().await;
    let (alice, bob, key) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    let reserved = claim(alice, key);
    acquire(&store, &reserved).await;

    // As bob, with alice's own token.
    let stolen = Reservation { owner: OwnerId::new(bob), ..reserved.reservation };
    let thief = Claim { reservation: stolen, ..reserved.clone() };
    assert_eq!(completed(&store, &thief, "bob's").await, CompleteOutcome::Fenced);
    assert_eq!(store.release(&stolen).await.expect("the store answers"), ReleaseOutcome::NotHeld);

    let api = database.api().await;
    execute(&api, &format!("SET app.current_user_id = '{bob}'")).await;
    for statement in [
        "SELECT FROM tenant.idempotency_keys",
        "UPDATE tenant.idempotency_keys SET response_bytes = ''",
        "UPDATE tenant.idempotency_keys SET token = NULL WHERE response_bytes IS NULL",
        "DELETE FROM tenant.idempotency_keys",
    ] {
        assert_eq!(api.execute(statement, &[]).await.expect(statement), 0, "{statement}");
    }
    let of_another = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
                      VALUES (gen_random_uuid(), gen_random_uuid(), '', '', now() + interval '1 hour')";
    let error = api.batch_execute(of_another).await.expect_err("a row of another user");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    // The same key is bob's own, and alice's is untouched.
    complete(&store, &claim(bob, key), &completion("bob's")).await;
    store.complete(&reserved.reservation, &completion("alice's")).await.expect("the store answers");
    for (user, message) in [(alice, "alice's"), (bob, "bob's")] {
        assert_eq!(replay_of(&store, &claim(user, key)).await.response, StoredResponse::message(message));
    }
}

#[tokio::test]
async fn no_row_is_visible_without_a_user() {
    let (database, store) = Database::with_store().await;
    complete(&store, &new_claim(), &completion("done")).await;
    acquire(&store, &new_claim()).await;
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
async fn a_recycled_connection_carries_no_user_and_nothing_else() {
    let database = Database::new().await;
    // One connection for all users.
    let pool = database.pool(1);
    let store = PostgresStore::new(pool.clone(), organization::resource_types());
    let first = new_claim();
    let owner = database.owner().await;
    let unset = async || {
        let connection = pool.get().await.expect("the connection");
        // The store's own statements have no values.
        let left = left("statement !~ 'tenant.idempotency_.*[$]1|clock_timestamp|pg_backend_pid'");
        assert_eq!(value::<String>(&connection, &format!("SELECT {left}")).await, "");
        let open = "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
        assert_eq!(count(&owner, open).await, 0);
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
    store.abandoned(&search()).await.expect("the store answers");
    unset().await;
    let settings = Some(Arc::new(SessionSettings::new().set("app.tenant_id", "acme")));
    let session = CallSession { settings, ..first.session.clone() };
    let resource = Resource { resource_type: "project".to_owned(), id: Uuid::new_v4().into() };
    store.status(&session, &resource).await.expect("the store answers");
    unset().await;
    let second = Claim { session: session.clone(), ..new_claim() };
    for commits in [false, true] {
        match store.begin(&again(&second), TransactionOptions::default()).await.expect("the store answers") {
            BeginOutcome::Open { transaction, .. } if commits => committed(transaction, completion("done")).await,
            BeginOutcome::Open { transaction, .. } => roll_back(transaction).await,
            other => panic!("expected a transaction, got {other:?}"),
        }
        unset().await;
    }
    store.claim(&again(&second)).await.expect("the store answers");
    unset().await;
    let owner = Some(first.reservation.owner);
    let transaction = store.begin_without_key(owner, &session, TransactionOptions::default()).await;
    transaction.expect("the store answers").commit(None).await.expect("the commit");
    unset().await;
}

/// The layer's own setting is enough, whatever the application's function of its user does.
#[tokio::test]
async fn does_not_depend_on_the_applications_user() {
    let (database, owner) = Database::with_owner().await;
    let sql = "CREATE OR REPLACE FUNCTION authn.current_user_id() RETURNS uuid LANGUAGE plpgsql STABLE
             AS $$ BEGIN RAISE EXCEPTION 'the application looks for its user elsewhere'; END $$";
    execute(&owner, sql).await;
    let store = database.store();
    let nobody = |claim| Claim { session: CallSession::default(), resource_type: None, ..claim };
    let first = nobody(new_claim());
    acquire(&store, &first).await;
    extend(&store, &first, HOUR).await;
    record(&store, &first, "done").await;
    replay_of(&store, &first).await;

    let [released, abandoned, begun] = [(); 3].map(|()| nobody(new_claim()));
    acquire(&store, &released).await;
    release(&store, &released).await;
    acquire(&store, &abandoned).await;
    store.abandon(&abandoned.reservation).await.expect("the store answers");
    assert_eq!(store.abandoned(&search()).await.expect("the store answers").len(), 1);
    let transaction = open_transaction(&store, &begun).await;
    transaction.commit(Some(completion("done"))).await.expect("the commit");
    owner.batch_execute("UPDATE tenant.idempotency_keys SET expires = now()").await.expect("time");
    assert_eq!(store.sweep(10).await.expect("the store answers"), 3);
}

/// Sees the rows of the layer's owner, and none of the application's user beside them.
#[tokio::test]
async fn the_layers_owner_opens_no_rows_but_its_own() {
    let (database, store) = Database::with_store().await;
    let [alice, bob] = [(); 2].map(|()| Uuid::new_v4());
    for user in [alice, bob] {
        complete(&store, &claim(user, Uuid::new_v4()), &completion("done")).await;
    }
    let mut api = database.api().await;
    let seen = "SELECT coalesce(string_agg(user_id::text, ' ' ORDER BY user_id), '') FROM tenant.idempotency_keys";
    for (owner, user, expected) in [
        (None, None, None),
        (Some(alice), None, Some(alice)),
        (None, Some(bob), Some(bob)),
        (Some(alice), Some(bob), Some(alice)),
        (Some(Uuid::nil()), Some(bob), None),
    ] {
        let text = |id: Option<Uuid>| id.map(|id| id.to_string()).unwrap_or_default();
        let transaction = api.transaction().await.expect("a transaction");
        let set = "SELECT set_config('idempotency.owner', $1, true), set_config('app.current_user_id', $2, true)";
        transaction.query(set, &[&text(owner), &text(user)]).await.expect("the settings");
        let found: String = value(transaction.client(), seen).await;
        assert_eq!(found, text(expected), "{owner:?} {user:?}");
        for statement in
            ["UPDATE tenant.idempotency_keys SET procedure = procedure", "DELETE FROM tenant.idempotency_keys"]
        {
            let changed = transaction.execute(statement, &[]).await.expect(statement);
            assert_eq!(changed, u64::from(expected.is_some()), "{statement}");
        }
        transaction.rollback().await.expect("the rollback");
    }
}

/// A setting that was left on a connection opens nothing to the layer's statements.
#[tokio::test]
async fn an_owner_that_was_left_on_a_connection_counts_for_nothing() {
    let database = Database::new().await;
    let (alice, bob) = (new_claim(), new_claim());
    complete(&database.store(), &alice, &completion("alice's")).await;
    let reserved = Claim { lease: std::time::Duration::ZERO, ..new_claim() };
    acquire(&database.store(), &reserved).await;
    let left = format!("SET idempotency.owner = '{}'", alice.reservation.owner.as_uuid());
    let store = patient(database.pool_with(1, &left));

    acquire(&store, &bob).await;
    let stolen = Reservation { owner: bob.reservation.owner, ..alice.reservation };
    let outcome = store.complete(&stolen, &completion("bob's")).await.expect("the store answers");
    assert_eq!(outcome, CompleteOutcome::Fenced);
    store.complete(&bob.reservation, &completion("bob's")).await.expect("the store answers");
    assert_eq!(store.abandoned(&search()).await.expect("the store answers").len(), 1);
    assert_eq!(store.sweep(10).await.expect("the store answers"), 0);
    let anybody = store.begin_without_key(None, &CallSession::default(), TransactionOptions::default()).await;
    let anybody = anybody.expect("the store answers");
    let handle = handle_of(&*anybody);
    let seen = handle.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("the count");
    assert_eq!(seen.get::<_, i64>(0), 0);
    anybody.roll_back().await;
}
