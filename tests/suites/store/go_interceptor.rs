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
    async fn new(database: &Database, claim: &Claim) -> Self {
        let (user, key) = (*claim.reservation.owner.as_uuid(), *claim.reservation.key.as_uuid());
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
}

#[tokio::test]
async fn its_response_is_replayed_by_our_store() {
    let database = Database::new().await;
    let project = database.project(Some(OutboxStatus::Completed)).await;
    let claim = new_claim();
    let mut go = GoInterceptor::new(&database, &claim).await;
    go.reserve().await;

    let outcome = database.store().claim(&claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");

    go.complete(uuid_of(&project)).await;
    let replay = replay_of(&database.store(), &claim).await;
    assert_eq!(replay.response, StoredResponse::message("go"), "it has no metadata");
    assert_eq!(replay.resource, Some(project.id));
    assert_eq!(replay.status.expect("a status"), Some(OutboxStatus::Completed));
}

/// A key that a Go server reserved two hours ago, without an outcome. Its record lives for 22 hours more.
async fn left_by_a_go_server(database: &Database) -> Claim {
    let claim = new_claim();
    let mut go = GoInterceptor::new(database, &claim).await;
    go.reserve().await;
    let owner = database.owner().await;
    let sql = "UPDATE tenant.idempotency_keys
             SET created = created - interval '2 hours', expires = expires - interval '2 hours'";
    execute(&owner, sql).await;
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
        let outcome = refusal(&store, &again(&claim)).await;
        assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
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
