//! The details that a call learns of the transaction that holds its key.

use crate::prelude::*;

/// A call that misuses the key holds the key's lock until its ROLLBACK arrives. Meanwhile, the legitimate call is not refused as the
/// misuse.
#[tokio::test]
async fn is_in_progress_while_a_misuse_of_the_key_is_refused() {
    let database = Database::new().await;
    let (store, misuse) = (database.store(), database.api().await);
    let legitimate = new_claim();
    acquire(&store, &Claim { lease: std::time::Duration::ZERO, ..again(&legitimate) }).await;
    let Reservation { owner, key, .. } = legitimate.reservation;
    let (user, key) = (owner.as_uuid(), key.as_uuid());
    let of_another_request = format!(
        "SELECT state FROM tenant.idempotency_begin('{user}', '{key}', '{key}', '{PROCEDURE}', decode(repeat('08', 32), 'hex'), NULL, 60,
             60, 'rerun', 'in_progress', NULL, NULL, NULL, 'Infinity')"
    );
    execute(&misuse, "BEGIN").await;
    assert_eq!(value::<String>(&misuse, &of_another_request).await, "abandoned");
    let outcome = refusal(&store, &legitimate).await;
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
    let (user, key) = (legitimate.reservation.owner.as_uuid(), legitimate.reservation.key.as_uuid());
    let lock = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(tenant.idempotency_lock_id('{user}', '{key}')),
                       pg_advisory_xact_lock_shared(1768187245, 1), pg_advisory_xact_lock(1)"
    );
    execute(&other, &lock).await;
    let outcome = refusal(&store, &legitimate).await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

/// The number of the lock of one key, for one user.
async fn lock_id(client: &Client) -> i64 {
    let select = "SELECT tenant.idempotency_lock_id('00000000-0000-7000-8000-000000000001',
                                                    '00000000-0000-7000-8000-000000000002')";
    value(client, select).await
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
