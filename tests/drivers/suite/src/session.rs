//! The settings that name the caller in a handler's transaction, for row-level security.

use std::sync::atomic::{AtomicBool, Ordering};

use tonic::Code;
use tonic_idempotency::{
    Caller, Scope, UserId, layer::IdempotencyLayerBuilder, rejection::Reason, store::SessionSettings,
};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::{
    Call, Service, Stack, all_are_back, all_have_ended, assert_clean, names, patient, pool, reason, rows, status,
};

pub async fn names_the_user_and_has_the_applications_settings<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let build = |builder: IdempotencyLayerBuilder| {
        // A later one counts, and the value is not SQL.
        let settings = SessionSettings::new().set("app.tenant_id", "another").set("app.tenant_id", "acme");
        builder.session_settings(move |_| settings.clone().set("app.region", "'; --"))
    };
    let script = |call: Call<S>| async move {
        let found = "SELECT concat_ws(' ', authn.current_user_id(), current_setting('app.tenant_id'), current_setting('app.region'))";
        let found = call.select(found).await?.expect("the settings");
        call.insert_as(&found).await
    };
    let service = Service::built(&database, patient::<S>(pool.clone()), |procedure| procedure, build, script).await;
    for key in [service.key, None] {
        service.with_key(key).create("shop").await.expect("a call");
    }
    let expected = format!("{} acme '; --", service.user.expect("a user"));
    assert_eq!(names(&owner).await, [&*expected, &*expected]);
    all_have_ended(&owner).await;
    assert_clean::<S>(&pool).await;
}

/// A user of no organisation may not insert, and sees no rows.
pub async fn lets_row_level_security_see_the_user<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, pool::<S>(&database, 1), |call: Call<S>| async move {
        let seen = call.select("SELECT count(*)::text FROM tenant.projects").await?;
        assert_eq!(seen.as_deref(), Some(if call.name == "stranger" { "0" } else { "1" }));
        call.insert().await
    })
    .await;
    database.project(None).await;
    service.create("member").await.expect("a call");
    let stranger = service.with_user(Some(Uuid::new_v4()));
    stranger.create("stranger").await.expect_err("row-level security");
    assert_eq!(rows(&owner).await, [2, 1, 1]);
}

/// The handler may change the setting; the record still belongs to its caller.
pub async fn keeps_the_record_for_its_user_whatever_the_handler_sets<S: Stack>() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<S>(&database, 2), |call: Call<S>| async move {
        let project = call.insert().await?;
        call.select("SELECT set_config('app.current_user_id', gen_random_uuid()::text, true)").await?;
        Ok(project)
    })
    .await;
    let first = service.create("shop").await.expect("a call");
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.replayed, replay.project), (true, first.project));
}

/// Makes every call one of this caller.
fn as_caller(caller: Caller) -> impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    move |builder| builder.caller_resolver(move |_: &http::HeaderMap, _: &http::Extensions| Ok(Some(caller.clone())))
}

fn text_user() -> Caller {
    Caller::new(UserId::from_text("auth0|x").expect("a user")).in_scope(Scope::from_text("acme").expect("a scope"))
}

/// A service that writes the settings that its handlers find into the names of projects.
async fn telling<S: Stack>(
    database: &Database,
    pool: S::Pool,
    build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
) -> Service {
    let tell = |call: Call<S>| async move {
        let select = "SELECT concat_ws(' ', coalesce(authn.current_user_id()::text, 'nobody'),
                                       nullif(current_setting('app.tenant_id', true), ''),
                                       nullif(current_setting('app.region', true), ''))";
        let found = call.select(select).await?.unwrap_or_default();
        // As the user of the organisation, whatever was found.
        call.select(&format!("SELECT set_config('app.current_user_id', '{}', true)", call.name)).await?;
        call.insert_as(&found).await
    };
    Service::built(database, patient::<S>(pool), |procedure| procedure, build, tell).await
}

/// Calls with and without a key.
async fn call_twice(service: &Service) {
    let member = service.user.expect("a user").to_string();
    for key in [service.key, None] {
        service.with_key(key).create(&member).await.expect("a call");
    }
}

pub async fn names_the_user_if_it_is_a_uuid_also_in_a_scope<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let id = Uuid::new_v4();
    let caller = Caller::new(UserId::new(id)).in_scope(Scope::new(Uuid::new_v4()));
    let service = telling::<S>(&database, pool::<S>(&database, 1), as_caller(caller.clone())).await;
    call_twice(&service).await;
    assert_eq!(names(&owner).await, [id.to_string(), id.to_string()]);
    let recorded = "SELECT user_id FROM tenant.idempotency_keys";
    let recorded: Uuid = owner.query_one(recorded, &[]).await.expect("the record").get(0);
    assert_eq!(&recorded, caller.owner().as_uuid());
    assert_ne!(recorded, id);
}

/// They end with the transaction: the next call on the same connection has none of them.
pub async fn has_no_settings_of_the_call_before<S: Stack>() {
    let database = Database::new().await;
    let first = AtomicBool::new(true);
    let service = telling::<S>(&database, pool::<S>(&database, 1), |builder| {
        as_caller(text_user())(builder).session_settings(move |_| {
            if first.swap(false, Ordering::SeqCst) {
                return SessionSettings::new().set("app.tenant_id", "acme").set("app.region", "here");
            }
            SessionSettings::new()
        })
    })
    .await;
    call_twice(&service).await;
    assert_eq!(names(&database.owner().await).await, ["nobody", "nobody acme here"]);
}

/// A name that the layer takes, and the database does not: the call is refused, and nothing is left.
pub async fn that_the_database_refuses_is_a_refusal<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    let service = telling::<S>(&database, pool.clone(), |builder| {
        as_caller(text_user())(builder)
            .session_settings(|_| SessionSettings::new().set("plpgsql.variable_conflict", "no such value"))
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::StoreFailed);
    }
    assert_eq!((service.runs(), rows(&database.owner().await).await), (0, [0, 0, 0]));
    assert_clean::<S>(&pool).await;
}

/// The look-up of a status reads the application's tables under its policies.
pub async fn is_there_for_the_status_of_a_replay<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text)
             RETURNS text LANGUAGE sql STABLE AS $$
                 SELECT CASE WHEN current_setting('app.tenant_id', true) = 'acme' THEN 'failed' END
             $$",
        )
        .await
        .expect("the function");
    let service = telling::<S>(&database, pool::<S>(&database, 1), |builder| {
        as_caller(text_user())(builder)
            .session_settings(|caller| {
                SessionSettings::new().set("app.tenant_id", caller.scope.as_ref().expect("a scope").to_text())
            })
            .replay_cache_bytes(0)
    })
    .await;
    let member = service.user.expect("a user").to_string();
    let first = service.create(&member).await.expect("a call");
    let replay = service.create(&member).await.expect("a replay");
    assert_eq!((replay.replayed, replay.project), (true, first.project));
    assert_eq!(replay.status.as_deref(), Some("failed"));
}

/// A handler changes the session of its connection, and the calls after it do not notice.
pub async fn that_a_handler_changes_for_good_is_not_the_next_calls<S: Stack>() {
    for change in [
        "SELECT set_config('app.current_user_id', gen_random_uuid()::text, false)",
        "SELECT set_config('idempotency.owner', gen_random_uuid()::text, false)",
        "SET SESSION search_path = pg_temp",
        "SET SESSION default_transaction_isolation = 'serializable'",
        "SET SESSION idle_in_transaction_session_timeout = '1h'",
        "CREATE TEMPORARY TABLE idempotency_keys (id integer)",
        "CREATE TEMPORARY TABLE temporary (id integer) ON COMMIT DROP",
        "DECLARE held CURSOR WITH HOLD FOR SELECT 1",
        "PREPARE prepared AS SELECT 1",
        "LISTEN news",
        "NOTIFY news",
        "SELECT pg_advisory_lock(7)",
        "SELECT pg_advisory_xact_lock(7)",
        "LOCK TABLE tenant.projects IN SHARE ROW EXCLUSIVE MODE",
    ] {
        changed::<S>(change).await;
    }
}

/// Calls of other users after a handler that has made this change, on the same connection.
async fn changed<S: Stack>(change: &'static str) {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), move |call: Call<S>| async move {
        let user = call.select("SELECT authn.current_user_id()::text").await?;
        let project = call.insert_as(&user.unwrap_or_default()).await?;
        if call.name == "change" {
            call.execute(change).await.map_err(status)?;
        }
        Ok(project)
    })
    .await;
    let first = service.create("change").await.expect("a call");
    owner.batch_execute("NOTIFY news").await.expect("a notification");
    let other = service.with_user(Some(database.user().await.id)).with_new_key();
    other.create("shop").await.expect("another user's call");
    other.with_key(None).create("shop").await.expect("a call without a key");
    let replay = service.create("change").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed), (first.project, true), "{change}");
    assert!(other.create("shop").await.expect("a replay").replayed, "{change}");
    let [user, other] = [service.user, other.user].map(|user| user.expect("a user").to_string());
    let mut expected = [user, other.clone(), other];
    expected.sort_unstable();
    assert_eq!(names(&owner).await, expected, "{change}");
    assert_eq!(rows(&owner).await, [3, 3, 2], "{change}");
    all_have_ended(&owner).await;
    all_are_back::<S>(&pool).await;
}

/// Settings with names that the layer keeps for itself, or that are none.
pub async fn with_names_that_are_not_the_applications_is_a_refusal<S: Stack>() {
    let database = Database::new().await;
    for name in ["tenant", "app.tenant id", "idempotency.owner", "app.idempotency_token", "app.x'); DROP TABLE y; --"] {
        let service = telling::<S>(&database, pool::<S>(&database, 1), |builder| {
            as_caller(text_user())(builder).session_settings(move |_| SessionSettings::new().set(name, "1"))
        })
        .await;
        for key in [service.key, None] {
            let refused = service.with_key(key).create("shop").await;
            assert_eq!(refused.as_ref().err().map(tonic::Status::code), Some(Code::Internal), "{name}");
            assert_eq!(reason(refused), Reason::CallerInvalid, "{name}");
        }
        assert_eq!(service.runs(), 0);
    }
    assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
}
