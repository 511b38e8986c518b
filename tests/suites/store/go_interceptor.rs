//! The Go interceptor's statements, as a Go server on the same table runs them: each in a transaction with the user
//! set.

use tonic_idempotency::policy::ForeignPolicy;

use crate::prelude::*;

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

    async fn as_user(&mut self, statement: &str, parameters: Parameters<'_>) -> u64 {
        let transaction = self.client.transaction().await.expect("a transaction");
        let user = self.user.to_string();
        let sql = "SELECT set_config('app.current_user_id', $1, true)";
        transaction.query_typed(sql, &[(&user, Type::TEXT)]).await.expect("the user is set");
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
    assert_eq!(go.complete(uuid_of(&project)).await, 1);
    assert_eq!(go.complete(uuid_of(&project)).await, 0);
    assert_eq!(go.unreserve().await, 0);
}

#[tokio::test]
async fn its_response_is_replayed_by_our_store() {
    let database = Database::new().await;
    let project = database.project(Some(OutboxStatus::Completed)).await;
    let claim = new_claim();
    let mut go =
        GoInterceptor::new(&database, *claim.reservation.owner.as_uuid(), *claim.reservation.key.as_uuid()).await;
    go.reserve().await;

    let outcome = database.store().claim(&claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");

    go.complete(uuid_of(&project)).await;
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
    let (database, store) = Database::with_store().await;
    let (reserved, done) = (new_claim(), new_claim());
    acquire(&store, &reserved).await;
    complete(&store, &done, &completion("rust")).await;
    for claim in [reserved, done] {
        let user = *claim.reservation.owner.as_uuid();
        assert_eq!(GoInterceptor::new(&database, user, *claim.reservation.key.as_uuid()).await.reserve().await, 0);
    }
}

/// A key that a Go server reserved two hours ago, without an outcome. Its record lives for 22 hours more.
async fn left_by_a_go_server(database: &Database) -> Claim {
    let claim = new_claim();
    let mut go =
        GoInterceptor::new(database, *claim.reservation.owner.as_uuid(), *claim.reservation.key.as_uuid()).await;
    go.reserve().await;
    let owner = database.owner().await;
    let sql = "UPDATE tenant.idempotency_keys
             SET created = created - interval '2 hours', expires = expires - interval '2 hours'";
    owner.batch_execute(sql).await.expect("time");
    claim
}

/// As among Go servers: nothing tells whether its call has taken effect.
#[tokio::test]
async fn its_reservation_is_in_progress_until_it_expires() {
    let (database, store) = Database::with_store().await;
    let claim = left_by_a_go_server(&database).await;
    for policy in [LeasePolicy::Rerun, LeasePolicy::Refuse, LeasePolicy::Reconcile] {
        let claim = Claim { on_lease_ended: policy, ..again(&claim) };
        match store.claim(&claim).await.expect("the store answers") {
            ClaimOutcome::InFlight { lease_left } => {
                assert!(lease_left > 21 * HOUR && lease_left < 23 * HOUR, "{lease_left:?}");
            }
            other => panic!("expected a call in flight, got {other:?}"),
        }
        match store.begin(&again(&claim), TransactionOptions::default()).await.expect("the store answers") {
            BeginOutcome::Refused(ClaimOutcome::InFlight { .. }) => {}
            other => panic!("expected a call in flight, got {other:?}"),
        }
    }
    let owner = database.owner().await;
    owner.batch_execute("UPDATE tenant.idempotency_keys SET expires = now()").await.expect("time");
    acquire(&store, &again(&claim)).await;
}

/// The lease is the claim's own, and counts from the reservation.
#[tokio::test]
async fn its_reservation_is_taken_over_once_a_lease_has_passed_if_that_is_the_policy() {
    for on_foreign_reservation in [ForeignPolicy::Rerun, ForeignPolicy::Reconcile] {
        for on_lease_ended in [LeasePolicy::Rerun, LeasePolicy::Refuse, LeasePolicy::Reconcile] {
            let (database, store) = Database::with_store().await;
            let claim = left_by_a_go_server(&database).await;
            let claim = Claim { on_foreign_reservation, on_lease_ended, ..claim };
            let early = store.claim(&Claim { lease: 3 * HOUR, ..again(&claim) }).await.expect("the store answers");
            match early {
                ClaimOutcome::InFlight { lease_left } => assert!(lease_left <= HOUR, "{lease_left:?}"),
                other => panic!("expected a call in flight, got {other:?}"),
            }
            let begun = store.begin(&again(&claim), TransactionOptions::default()).await.expect("the store answers");
            match begun {
                BeginOutcome::Open { transaction, taken_over: true } => roll_back(transaction).await,
                other => panic!("expected a takeover, got {other:?}"),
            }
            take_over(&store, &claim).await;
            assert_in_flight(&store, &claim).await;
        }
    }
}

/// The policy is for reservations without a lease only.
#[tokio::test]
async fn a_reservation_with_a_lease_is_not_taken_over_as_if_it_were_foreign() {
    let (_database, store) = Database::with_store().await;
    let ended = Claim {
        lease: Duration::ZERO,
        on_lease_ended: LeasePolicy::Refuse,
        on_foreign_reservation: ForeignPolicy::Rerun,
        ..new_claim()
    };
    acquire(&store, &ended).await;
    assert_unknown(&store, &again(&ended)).await;
}
