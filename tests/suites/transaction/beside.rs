//! Transactional mode beside servers that use the table in another way: with the Go interceptor, or in reserved mode.

use organization::proto::CreateProjectResponse;
use prost::Message as _;
use tonic_idempotency::{
    layer::IdempotencyLayerBuilder,
    policy::{ForeignPolicy, Reconciliation},
};
use tonic_idempotency_tests::uuid_of;

use crate::prelude::*;

/// The Go interceptor's statements on one key, run by the superuser.
struct GoInterceptor {
    owner: Client,
    user: Uuid,
    key: Uuid,
}

impl GoInterceptor {
    async fn beside(database: &Database, service: &Service) -> Self {
        let (user, key) = (service.user.expect("a user"), service.key.expect("a key"));
        Self { owner: database.owner().await, user, key }
    }

    /// Reserves the key for the request with this hash, as if `age` ago.
    async fn reserve(&self, hash: &[u8], age: &str) {
        let insert = format!(
            "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, created, expires)
             VALUES ($1, $2, $3, $4, now() - interval '{age}', now() - interval '{age}' + interval '24 hours')"
        );
        let parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
            &[(&self.key, Type::UUID), (&self.user, Type::UUID), (&CREATE_PROJECT, Type::TEXT), (&hash, Type::BYTEA)];
        self.owner.execute_typed(&insert, parameters).await.expect("the reservation");
    }

    async fn complete(&self, project: Uuid) {
        let response = CreateProjectResponse { project_id: project.to_string() }.encode_to_vec();
        let update = "UPDATE tenant.idempotency_keys SET response_bytes = $1 WHERE idempotency_key = $2";
        self.owner.execute(update, &[&response, &self.key]).await.expect("the completion");
    }
}

/// The hash of the request that creates a project with this name, from a record that the layer made.
async fn hash(database: &Database, service: &Service, name: &str) -> Vec<u8> {
    let other = service.with_key(Some(Uuid::new_v4()));
    other.create(name).await.expect("a call");
    let owner = database.owner().await;
    let select = "SELECT request_hash FROM tenant.idempotency_keys WHERE idempotency_key = $1";
    let hash = owner.query_one(select, &[&other.key]).await.expect("the record").get(0);
    owner.batch_execute("DELETE FROM tenant.idempotency_keys; DELETE FROM tenant.projects;").await.expect("clean");
    hash
}

async fn plain(database: &Database) -> Service {
    Service::new(database, database.pool(4), |call: Call| async move { call.insert().await }).await
}

#[tokio::test]
async fn a_key_held_by_another_server_is_in_progress_and_then_replayed() {
    let database = Database::new().await;
    let service = plain(&database).await;
    let hash = hash(&database, &service, "shop").await;
    let go = GoInterceptor::beside(&database, &service).await;
    go.reserve(&hash, "0").await;
    assert_eq!(reason(service.create("shop").await), Reason::InProgress);
    assert_eq!(reason(service.create("another shop").await), Reason::KeyReused);
    let project = Uuid::new_v4();
    go.complete(project).await;
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed), (project, true));
    assert_eq!(rows(&go.owner).await, [0, 0, 1]);
}

/// A reservation was made and abandoned while our handler ran: its call may have taken effect, so ours must not.
#[tokio::test]
async fn a_reservation_abandoned_in_the_meantime_is_not_taken_over() {
    let database = Database::new().await;
    let probe = plain(&database).await;
    let hash = hash(&database, &probe, "shop").await;
    let key = Uuid::new_v4();
    let go = Arc::new(GoInterceptor { key, user: probe.user.expect("a user"), owner: database.owner().await });
    let other = Arc::clone(&go);
    let describe = |procedure: ProcedureBuilder| procedure.on_foreign_reservation(ForeignPolicy::Rerun);
    let service = Service::with(&database, database.pool(4), describe, move |call: Call| {
        let (go, hash) = (Arc::clone(&other), hash.clone());
        async move {
            let mine = call.insert().await?;
            if rows(&go.owner).await[2] == 0 {
                go.reserve(&hash, "2 hours").await;
            }
            Ok(mine)
        }
    })
    .await;
    let service = service.with_user(probe.user).with_key(Some(key));
    assert_eq!(reason(service.create("shop").await), Reason::Conflict);
    assert_eq!(rows(&go.owner).await, [0, 0, 1], "nothing of ours is left");
    // A retry finds it when it claims, and takes it over as its policy says.
    assert!(!service.create("shop").await.expect("it runs").replayed);
    assert_eq!(rows(&go.owner).await, [1, 1, 1]);
}

#[tokio::test]
async fn a_reservation_that_was_left_behind_is_taken_over_or_in_progress_by_policy() {
    for (policy, age) in [
        (ForeignPolicy::Rerun, "2 hours"),
        (ForeignPolicy::InProgress, "2 hours"),
        (ForeignPolicy::InProgress, "2 days"),
    ] {
        let database = Database::new().await;
        let describe = |procedure: ProcedureBuilder| procedure.on_foreign_reservation(policy);
        let service =
            Service::with(&database, database.pool(4), describe, |call: Call| async move { call.insert().await }).await;
        let hash = hash(&database, &service, "shop").await;
        let go = GoInterceptor::beside(&database, &service).await;
        go.reserve(&hash, age).await;
        let outcome = service.create("shop").await;
        if policy == ForeignPolicy::InProgress && age == "2 hours" {
            assert_eq!(reason(outcome), Reason::InProgress);
            assert_eq!(rows(&go.owner).await, [0, 0, 1]);
            continue;
        }
        let first = outcome.expect("it runs");
        assert!(!first.replayed);
        assert_eq!(rows(&go.owner).await, [1, 1, 1]);
        let replay = service.create("shop").await.expect("a replay");
        assert_eq!((replay.project, replay.replayed), (first.project, true));
    }
}

/// The reconciler finds what the other server's call has done, although that server recorded nothing.
#[tokio::test]
async fn a_reservation_that_was_left_behind_is_reconciled_by_policy() {
    let database = Database::new().await;
    let hash = hash(&database, &plain(&database).await, "shop").await;
    let project = uuid_of(&database.project(None).await);
    let describe = |procedure: ProcedureBuilder| procedure.on_foreign_reservation(ForeignPolicy::Reconcile);
    let build = |builder: IdempotencyLayerBuilder| {
        builder.reconciler(CREATE_PROJECT, move |_| async move {
            Ok(Reconciliation::completed(&CreateProjectResponse { project_id: project.to_string() }))
        })
    };
    let script = |call: Call| async move { call.insert().await };
    let service = Service::built(&database, patient::<PostgresStack>(database.pool(4)), describe, build, script).await;
    let go = GoInterceptor::beside(&database, &service).await;
    go.reserve(&hash, "2 hours").await;
    for _ in 0..2 {
        let replay = service.create("shop").await.expect("the found response");
        assert_eq!((replay.project, replay.replayed, service.runs()), (project, true, 0));
    }
    assert_eq!(rows(&go.owner).await, [1, 0, 1]);
}
