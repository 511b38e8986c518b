//! What a handler's transaction has set of its caller, which row-level security sees.

use tonic_idempotency::{layer::IdempotencyLayerBuilder, store::SessionSettings};
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;

use crate::harness::{Call, Service, all_have_ended, assert_clean, insert, names, patient, pool, rows};

async fn setting(call: &Call, select: &'static str) -> Result<String, TransactionError> {
    Ok(sqlx::query_scalar(select).fetch_one(&mut *call.connection().await?).await?)
}

#[tokio::test]
async fn names_the_user_and_has_the_applications_settings() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool(&database, 1);
    let build = |builder: IdempotencyLayerBuilder| {
        builder.session_settings(|_| SessionSettings::new().set("app.tenant_id", "acme").set("app.region", "'; --"))
    };
    let script = |call: Call| async move {
        let found = "SELECT concat_ws(' ', authn.current_user_id(), current_setting('app.tenant_id'), current_setting('app.region'))";
        let found = setting(&call, found).await?;
        Ok(insert(&mut *call.connection().await?, &found).await?)
    };
    let service = Service::built(&database, patient(pool.clone()), |procedure| procedure, build, script).await;
    for key in [service.key, None] {
        service.with_key(key).create("shop").await.expect("a call");
    }
    let expected = format!("{} acme '; --", service.user.expect("a user"));
    assert_eq!(names(&owner).await, [&*expected, &*expected]);
    all_have_ended(&owner).await;
    assert_clean(&pool).await;
}

/// A user of no organisation may not insert, and sees no rows.
#[tokio::test]
async fn lets_row_level_security_see_the_user() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, pool(&database, 1), |call: Call| async move {
        let seen = setting(&call, "SELECT count(*)::text FROM tenant.projects").await?;
        assert_eq!(seen, if call.name == "stranger" { "0" } else { "1" });
        call.insert().await
    })
    .await;
    database.project(None).await;
    service.create("member").await.expect("a call");
    let stranger = Service { user: Some(uuid::Uuid::new_v4()), ..service.clone() };
    stranger.create("stranger").await.expect_err("row-level security");
    assert_eq!(rows(&owner).await, [2, 1, 1]);
}

/// The handler may change the setting; the record still belongs to its caller.
#[tokio::test]
async fn keeps_the_record_for_its_user_whatever_the_handler_sets() {
    let database = Database::new().await;
    let service = Service::new(&database, pool(&database, 2), |call: Call| async move {
        let project = call.insert().await?;
        setting(&call, "SELECT set_config('app.current_user_id', gen_random_uuid()::text, true)").await?;
        Ok(project)
    })
    .await;
    let first = service.create("shop").await.expect("a call");
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.replayed, replay.project), (true, first.project));
}
