//! What a handler's transaction has set of its caller, which row-level security sees.

use tonic_idempotency::{layer::IdempotencyLayerBuilder, store::SessionSettings};
use tonic_idempotency_tests::Database;

use crate::{Call, Service, Stack, all_have_ended, assert_clean, names, patient, pool, rows};

pub async fn names_the_user_and_has_the_applications_settings<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let build = |builder: IdempotencyLayerBuilder| {
        builder.session_settings(|_| SessionSettings::new().set("app.tenant_id", "acme").set("app.region", "'; --"))
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
    let stranger = service.with_user(Some(uuid::Uuid::new_v4()));
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
