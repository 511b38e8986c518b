//! The details that a call learns of the transaction that holds its key.

use crate::prelude::*;

fn of_another_request(claim: &Claim) -> Claim {
    Claim { request: RequestHash::from([8; 32]).into(), ..again(claim) }
}

/// Begins a transaction for a claim, as a server does, and leaves it open. Returns the state.
async fn begin(client: &Client, claim: &Claim) -> String {
    client.batch_execute("BEGIN").await.expect("a transaction");
    let statement =
        "SELECT state FROM tenant.idempotency_begin($1, $2, $3, $4, $5, $6, 60, 60, 'rerun', 'in_progress', NULL, NULL,
             NULL, 'Infinity')";
    let row = client
        .query_typed_one(
            statement,
            &[
                (claim.reservation.owner.as_uuid(), Type::UUID),
                (claim.reservation.key.as_uuid(), Type::UUID),
                (&claim.reservation.token, Type::UUID),
                (&claim.procedure, Type::TEXT),
                (&claim.request.canonical().as_bytes().as_slice(), Type::BYTEA),
                (&claim.request.as_arrived().map(|hash| hash.as_bytes().as_slice()), Type::BYTEA),
            ],
        )
        .await
        .expect("the function answers");
    row.get(0)
}

async fn refused(store: &impl Store, claim: &Claim) -> ClaimOutcome {
    match store.begin(claim, TransactionOptions::default()).await.expect("the store answers") {
        BeginOutcome::Refused(outcome) => outcome,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Only a record has the request.
#[tokio::test]
async fn is_in_progress_while_a_handler_runs_whatever_its_request() {
    let database = Database::new().await;
    let (store, other) = (database.store(), database.api().await);
    let running = new_claim();
    assert_eq!(begin(&other, &running).await, "acquired");
    let procedure = "/a.B/C".to_owned();
    for claim in [again(&running), of_another_request(&running), Claim { procedure, ..again(&running) }] {
        let outcome = refused(&store, &claim).await;
        assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    }
}

/// A call that misuses the key holds the key's lock until its ROLLBACK arrives. Meanwhile, the legitimate call is not refused as the
/// misuse.
#[tokio::test]
async fn is_in_progress_while_a_misuse_of_the_key_is_refused() {
    let database = Database::new().await;
    let (store, misuse) = (database.store(), database.api().await);
    let legitimate = new_claim();
    acquire(&store, &Claim { lease: std::time::Duration::ZERO, ..again(&legitimate) }).await;
    assert_eq!(begin(&misuse, &of_another_request(&legitimate)).await, "abandoned");
    let outcome = refused(&store, &legitimate).await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");

    misuse.batch_execute("ROLLBACK").await.expect("the lock is gone");
    match store.begin(&legitimate, TransactionOptions::default()).await.expect("the store answers") {
        BeginOutcome::Open { transaction, taken_over: true } => roll_back(transaction).await,
        other => panic!("expected a transaction, got {other:?}"),
    }
}

/// The key's lock may be held without a handler: by a look-up after a lost COMMIT, or by another application.
#[tokio::test]
async fn is_in_progress_while_something_else_holds_the_keys_lock() {
    let database = Database::new().await;
    let (store, other) = (database.store(), database.api().await);
    let legitimate = new_claim();
    let lock = "SELECT pg_advisory_xact_lock(tenant.idempotency_lock_id($1, $2)),
                       pg_advisory_xact_lock_shared(1768187245, 1), pg_advisory_xact_lock(1)";
    other.batch_execute("BEGIN").await.expect("a transaction");
    let parameters: Parameters<'_> =
        &[(legitimate.reservation.owner.as_uuid(), Type::UUID), (legitimate.reservation.key.as_uuid(), Type::UUID)];
    other.query_typed(lock, parameters).await.expect("the locks");
    let outcome = refused(&store, &legitimate).await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

/// The number of the lock of one key, for one user.
async fn lock_id(client: &Client) -> i64 {
    let select = "SELECT tenant.idempotency_lock_id('00000000-0000-7000-8000-000000000001',
                                                    '00000000-0000-7000-8000-000000000002')";
    client.query_one(select, &[]).await.expect("the number").get(0)
}

/// A client that knows the code cannot choose keys by the numbers of their locks: they depend on a secret of the
/// database, which is made once.
#[tokio::test]
async fn is_found_by_a_number_that_no_client_can_foresee() {
    let (one, other) = (Database::empty().await, Database::empty().await);
    let (mut one, mut other) = (one.owner().await, other.owner().await);
    migrate(&mut one, &Schema::default()).await;
    migrate(&mut other, &Schema::default()).await;
    let number = lock_id(&one).await;
    assert_ne!(number, lock_id(&other).await);

    for file in super::migrations::core() {
        one.batch_execute(&file).await.expect("a migration, again");
    }
    assert_eq!(lock_id(&one).await, number, "old and new servers agree");
}
