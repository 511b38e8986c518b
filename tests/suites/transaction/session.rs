//! What a handler's transaction has set of its caller: the application's user, and the application's own settings.

use std::sync::Arc;

use deadpool_postgres::Pool;
use tokio_postgres::{Client, types::Type};
use tonic::Code;
use tonic_idempotency::{
    Caller, Scope, UserId,
    layer::IdempotencyLayerBuilder,
    rejection::Reason,
    store::{SessionSettings, StoreErrorKind},
};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::{
    connections::assert_clean,
    harness::{Call, Service, reason, rows},
};

/// Makes every call one of this caller.
fn as_caller(caller: Caller) -> impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    move |builder| builder.caller_resolver(move |_: &http::HeaderMap, _: &http::Extensions| Ok(Some(caller.clone())))
}

fn text_user() -> Caller {
    Caller::new(UserId::from_text("auth0|x").expect("a user")).in_scope(Scope::from_text("acme").expect("a scope"))
}

/// A service that writes the settings that its handlers find into the names of projects.
async fn telling(
    database: &Database,
    pool: Pool,
    build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
) -> Service {
    let tell = |call: Call| async move {
        let select = "SELECT concat_ws(' ', coalesce(authn.current_user_id()::text, 'nobody'),
                                       nullif(current_setting('app.tenant_id', true), ''),
                                       nullif(current_setting('app.region', true), ''))";
        let found: String = call.transaction().query_one(select, &[]).await?.get(0);
        // As the user of the organisation, whatever was found.
        let act = "SELECT set_config('app.current_user_id', (SELECT $1), true)";
        call.transaction().query_typed(act, &[(&call.name, Type::TEXT)]).await?;
        crate::harness::insert(&call.transaction(), &found).await
    };
    Service::built(database, pool, |procedure| procedure, build, tell).await
}

async fn told(owner: &Client) -> Vec<String> {
    let select = "SELECT name FROM tenant.projects ORDER BY id";
    owner.query(select, &[]).await.expect("the projects").iter().map(|row| row.get(0)).collect()
}

/// Calls with and without a key.
async fn call_twice(service: &Service) {
    let member = service.user.expect("a user").to_string();
    for key in [service.key, None] {
        service.with_key(key).create(&member).await.expect("a call");
    }
}

#[tokio::test]
async fn names_the_user_if_it_is_a_uuid_also_in_a_scope() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let id = Uuid::new_v4();
    let caller = Caller::new(UserId::new(id)).in_scope(Scope::new(Uuid::new_v4()));
    let service = telling(&database, database.pool(1), as_caller(caller.clone())).await;
    call_twice(&service).await;
    assert_eq!(told(&owner).await, [id.to_string(), id.to_string()]);
    let recorded: Uuid =
        owner.query_one("SELECT user_id FROM tenant.idempotency_keys", &[]).await.expect("the record").get(0);
    assert_eq!(&recorded, caller.owner().as_uuid());
    assert_ne!(recorded, id);
}

#[tokio::test]
async fn names_no_user_if_it_is_a_text() {
    let database = Database::new().await;
    let service = telling(&database, database.pool(1), as_caller(text_user())).await;
    call_twice(&service).await;
    assert_eq!(told(&database.owner().await).await, ["nobody", "nobody"]);
}

#[tokio::test]
async fn has_the_applications_settings_with_and_without_a_key() {
    let database = Database::new().await;
    let member = Uuid::new_v4();
    let pool = database.pool(1);
    let service = telling(&database, pool.clone(), |builder| {
        as_caller(text_user())(builder).session_settings(move |caller| {
            let tenant = caller.scope.as_ref().expect("a scope").to_text();
            // A later one counts, and the value is not SQL.
            SessionSettings::new()
                .set("app.tenant_id", "another")
                .set("app.tenant_id", tenant)
                .set("app.region", "'; --")
                .set("app.current_user_id", member.to_string())
        })
    })
    .await;
    call_twice(&service).await;
    let expected = format!("{member} acme '; --");
    assert_eq!(told(&database.owner().await).await, [&*expected, &*expected]);
    assert_clean(&pool).await;
}

/// They end with the transaction: the next call on the same connection has none of them.
#[tokio::test]
async fn has_no_settings_of_the_call_before() {
    let database = Database::new().await;
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let service = telling(&database, database.pool(1), |builder| {
        as_caller(text_user())(builder).session_settings(move |_| {
            if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
                return SessionSettings::new().set("app.tenant_id", "acme").set("app.region", "here");
            }
            SessionSettings::new()
        })
    })
    .await;
    call_twice(&service).await;
    assert_eq!(told(&database.owner().await).await, ["nobody acme here", "nobody"]);
}

#[tokio::test]
async fn a_call_whose_settings_are_invalid_is_refused() {
    let database = Database::new().await;
    for name in ["tenant", "app.tenant id", "idempotency.owner", "app.idempotency_token", "app.x'); DROP TABLE y; --"] {
        let service = telling(&database, database.pool(1), |builder| {
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

/// A name that the layer takes, and the database does not: the call is refused, and nothing is left.
#[tokio::test]
async fn a_call_whose_settings_the_database_refuses_is_refused() {
    let database = Database::new().await;
    let service = telling(&database, database.pool(1), |builder| {
        as_caller(text_user())(builder)
            .session_settings(|_| SessionSettings::new().set("plpgsql.variable_conflict", "no such value"))
    })
    .await;
    let refused = service.create("shop").await;
    assert_eq!(reason(refused), Reason::StoreFailed, "{}", StoreErrorKind::Refused.as_str());
    assert_eq!((service.runs(), rows(&database.owner().await).await), (0, [0, 0, 0]));
}

/// The look-up of a status reads the application's tables under its policies.
#[tokio::test]
async fn is_there_for_the_status_of_a_replay() {
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
    let service = telling(&database, database.pool(1), |builder| {
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
