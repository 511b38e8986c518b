//! The Go interceptor's statements, as a Go server on the same table runs them: each in a transaction with the user
//! set.

use tokio_postgres::{Client, types::Type};
use tonic_idempotency::{
    status::OutboxStatus,
    store::{ClaimOutcome, Store, StoredResponse},
};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::record::{HASH, PROCEDURE, acquire, again, claim, complete, completion, take_over};

/// A server with the Go interceptor.
struct GoInterceptor {
    client: Client,
    user: Uuid,
    key: Uuid,
}

impl GoInterceptor {
    async fn new(database: &Database, user: Uuid, key: Uuid) -> Self {
        Self { client: database.api().await, user, key }
    }

    async fn as_user(
        &mut self,
        statement: &str,
        parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)],
    ) -> u64 {
        let transaction = self.client.transaction().await.expect("a transaction");
        let user = self.user.to_string();
        transaction
            .query_typed("SELECT set_config('app.current_user_id', $1, true)", &[(&user, Type::TEXT)])
            .await
            .expect("the user is set");
        let rows = transaction.query_typed(&format!("{statement} RETURNING 1"), parameters).await.expect(statement);
        transaction.commit().await.expect("the commit");
        rows.len() as u64
    }

    async fn reserve(&mut self) -> u64 {
        let (key, user) = (self.key, self.user);
        self.as_user(
            "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
             VALUES ($1, $2, $3, $4, now() + interval '24 hours')
             ON CONFLICT (idempotency_key, user_id) DO NOTHING",
            &[(&key, Type::UUID), (&user, Type::UUID), (&PROCEDURE, Type::TEXT), (&HASH.as_slice(), Type::BYTEA)],
        )
        .await
    }

    async fn complete(&mut self, project: Uuid) -> u64 {
        let (key, user) = (self.key, self.user);
        self.as_user(
            "UPDATE tenant.idempotency_keys SET response_bytes = $3, project_id = $4
             WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL",
            &[(&key, Type::UUID), (&user, Type::UUID), (&b"go".as_slice(), Type::BYTEA), (&project, Type::UUID)],
        )
        .await
    }

    async fn unreserve(&mut self) -> u64 {
        let (key, user) = (self.key, self.user);
        self.as_user(
            "DELETE FROM tenant.idempotency_keys
             WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL",
            &[(&key, Type::UUID), (&user, Type::UUID)],
        )
        .await
    }
}

#[tokio::test]
async fn reserves_completes_and_unreserves() {
    let database = Database::new().await;
    let project = database.project(None).await;
    let mut go = GoInterceptor::new(&database, Uuid::new_v4(), Uuid::new_v4()).await;
    assert_eq!(go.reserve().await, 1);
    assert_eq!(go.reserve().await, 0);
    assert_eq!(go.unreserve().await, 1);
    assert_eq!(go.reserve().await, 1);
    assert_eq!(go.complete(project.id).await, 1);
    assert_eq!(go.complete(project.id).await, 0);
    assert_eq!(go.unreserve().await, 0);
}

#[tokio::test]
async fn its_response_is_replayed_by_our_store() {
    let database = Database::new().await;
    let project = database.project(Some(OutboxStatus::Completed)).await;
    let claim = claim(Uuid::new_v4(), Uuid::new_v4());
    let mut go =
        GoInterceptor::new(&database, *claim.reservation.user.as_uuid(), *claim.reservation.key.as_uuid()).await;
    go.reserve().await;

    let outcome = database.store().claim(&claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");

    go.complete(project.id).await;
    match database.store().claim(&claim).await.expect("the store answers") {
        ClaimOutcome::Replay(replay) => {
            assert_eq!(replay.response, StoredResponse::message("go"), "it has no metadata");
            assert_eq!(replay.resource, Some(project.id));
            assert_eq!(replay.status.expect("a status"), Some(OutboxStatus::Completed));
        }
        other => panic!("expected a replay, got {other:?}"),
    }
}

#[tokio::test]
async fn does_not_reserve_a_key_of_our_store() {
    let database = Database::new().await;
    let store = database.store();
    let (reserved, done) = (claim(Uuid::new_v4(), Uuid::new_v4()), claim(Uuid::new_v4(), Uuid::new_v4()));
    acquire(&store, &reserved).await;
    complete(&store, &done, &completion("rust")).await;
    for claim in [reserved, done] {
        let user = *claim.reservation.user.as_uuid();
        assert_eq!(GoInterceptor::new(&database, user, *claim.reservation.key.as_uuid()).await.reserve().await, 0);
    }
}

/// Among Go servers, a key stays reserved for 24 hours when its server dies. Our store gives the reservation a lease,
/// which counts from its creation.
#[tokio::test]
async fn its_reservation_is_taken_over_once_a_lease_has_passed() {
    let database = Database::new().await;
    let store = database.store();
    let claim = claim(Uuid::new_v4(), Uuid::new_v4());
    let mut go =
        GoInterceptor::new(&database, *claim.reservation.user.as_uuid(), *claim.reservation.key.as_uuid()).await;
    go.reserve().await;
    let owner = database.owner().await;
    owner.batch_execute("UPDATE tenant.idempotency_keys SET created = now() - interval '2 hours'").await.expect("time");

    take_over(&store, &claim).await;
    let outcome = store.claim(&again(&claim)).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}
