//! The permits of transactions: they leave connections to claims, and one user leaves transactions to others.

use tonic_idempotency::policy::Limit;

use crate::prelude::*;

/// Little patience: these tests wait for it to end.
fn hasty(store: &PostgresStore) -> PostgresStore {
    store.clone().timeout(Duration::from_secs(2))
}

async fn begin(store: &PostgresStore, user: Uuid) -> Result<Box<dyn StoreTransaction>, StoreError> {
    match store.begin(&claim(user, Uuid::new_v4()), TransactionOptions::default()).await? {
        BeginOutcome::Open { transaction, .. } => Ok(transaction),
        other => panic!("expected a transaction, got {other:?}"),
    }
}

async fn begin_without_key(store: &PostgresStore, user: Option<Uuid>) -> Result<Box<dyn StoreTransaction>, StoreError> {
    let session = CallSession { user, settings: None };
    store.begin_without_key(user.map(OwnerId::new), &session, TransactionOptions::default()).await
}

fn kind(refused: Result<Box<dyn StoreTransaction>, StoreError>) -> StoreErrorKind {
    refused.map(drop).expect_err("a refusal").kind()
}

fn pool_of(database: &Database, size: usize) -> (Pool, PostgresStore) {
    let pool = database.pool(size);
    (pool.clone(), patient(pool))
}

#[tokio::test]
async fn transactions_leave_a_quarter_of_the_pool_to_claims() {
    let database = Database::new().await;
    let leave = async |(size, transactions)| {
        let (_, store) = pool_of(&database, size);
        let mut open = Vec::new();
        for _ in 0..transactions {
            open.push(begin(&store, Uuid::new_v4()).await.expect("a transaction"));
        }
        assert_eq!(kind(begin(&hasty(&store), Uuid::new_v4()).await), StoreErrorKind::TransactionLimit, "{size}");
        assert_eq!(kind(begin_without_key(&hasty(&store), None).await), StoreErrorKind::TransactionLimit, "{size}");
        // A claim, a renewal and a record do not wait for a transaction.
        let claim = new_claim();
        complete(&store, &claim, &completion("done")).await;
        drop(open);
        begin(&store, Uuid::new_v4()).await.expect("a transaction").roll_back().await;
    };
    join_all([(2, 1), (4, 3), (8, 6)].map(leave)).await;
}

/// A pool of one connection keeps none back.
#[tokio::test]
async fn a_pool_of_one_connection_has_one_transaction() {
    let database = Database::new().await;
    let (_, store) = pool_of(&database, 1);
    let open = begin(&store, Uuid::new_v4()).await.expect("a transaction");
    assert_eq!(kind(begin(&hasty(&store), Uuid::new_v4()).await), StoreErrorKind::Overloaded);
    open.roll_back().await;
    acquire(&store, &new_claim()).await;
}

/// The layer's limits are of its store, too.
#[tokio::test]
async fn no_more_transactions_are_open_than_the_layer_allows() {
    let database = Database::new().await;
    let (_, store) = pool_of(&database, 8);
    let limits = Limits { transactions: Limit::new(3, 1), ..Limits::default() };
    // Clones share them.
    store.clone().set_up(&StoreSettings { limits });
    let user = Uuid::new_v4();
    let open = [begin(&store, user).await, begin(&store, Uuid::new_v4()).await];
    assert_eq!(kind(begin(&hasty(&store), user).await), StoreErrorKind::UserLimit);
    let third = begin(&store, Uuid::new_v4()).await.expect("the third");
    assert_eq!(kind(begin(&hasty(&store), Uuid::new_v4()).await), StoreErrorKind::TransactionLimit);
    for transaction in open.into_iter().chain([Ok(third)]) {
        transaction.expect("a transaction").roll_back().await;
    }
}

/// A call that waits for a transaction looks for its record, and begins then: it does not meet its own look.
#[tokio::test]
async fn a_call_that_looks_for_its_record_meanwhile_does_not_hold_its_key() {
    let database = Database::new().await;
    let (_, store) = pool_of(&database, 2);
    let open = begin_without_key(&store, None).await.expect("a transaction");
    let (owner, other) = (database.owner().await, database.owner().await);
    // The look stands still in the middle.
    owner.batch_execute("BEGIN; LOCK TABLE tenant.idempotency_keys").await.expect("the table is locked");
    let waiting =
        tokio::spawn(async move { begin(&store, Uuid::new_v4()).await.expect("a transaction").roll_back().await });
    let locks = "SELECT count(DISTINCT a.pid), count(*) FILTER (WHERE l.locktype = 'advisory')
                 FROM pg_stat_activity a JOIN pg_locks l USING (pid)
                 WHERE a.datname = current_database() AND a.wait_event_type = 'Lock' AND a.query LIKE '%idempotency_begin(%'";
    let locks = async || other.query_one(locks, &[]).await.expect("two counts");
    until("the call looks for its record", async || locks().await.get::<_, i64>(0) == 1).await;
    assert_eq!(locks().await.get::<_, i64>(1), 0, "locks of keys that the look has");
    owner.batch_execute("ROLLBACK").await.expect("the table is free");
    open.roll_back().await;
    waiting.await.expect("no panic");
}

/// A retry needs no transaction of its own to be answered.
#[tokio::test]
async fn a_retry_is_answered_while_its_user_has_no_transaction_left() {
    let database = Database::new().await;
    let (pool, store) = pool_of(&database, 4);
    let user = Uuid::new_v4();
    let done = claim(user, Uuid::new_v4());
    complete(&store, &done, &completion("done")).await;
    let running = claim(user, Uuid::new_v4());
    let open = store.begin(&running, TransactionOptions::default()).await.expect("a transaction");
    let another = begin(&store, user).await.expect("a transaction");
    let store = hasty(&store).timeout(Duration::from_secs(8));
    replayed(refusal(&store, &again(&done)).await);
    let outcome = refusal(&store, &again(&running)).await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    drop((open, another));
    until("its connection is closed", async || pool.status().available == pool.status().size).await;
}

#[tokio::test]
async fn a_permit_is_held_until_the_connection_is_given_back_or_closed() {
    let database = Database::new().await;
    let (_, store) = pool_of(&database, 2);
    let transaction = begin(&store, Uuid::new_v4()).await.expect("a transaction");
    let handle = handle_of(&*transaction);
    assert_eq!(kind(begin(&hasty(&store), Uuid::new_v4()).await), StoreErrorKind::TransactionLimit);
    drop(transaction);
    drop(handle);
    let transaction = begin(&store, Uuid::new_v4()).await.expect("a transaction");
    transaction.commit(None).await.expect("a commit");
    begin(&store, Uuid::new_v4()).await.expect("a transaction").roll_back().await;
}

#[tokio::test]
async fn the_permits_of_refused_and_failed_begins_come_back() {
    let database = Database::new().await;
    let (_, store) = pool_of(&database, 2);
    let store = store.common_path(true);
    let done = new_claim();
    complete(&store, &done, &completion("done")).await;
    let owner = database.owner().await;
    for _ in 0..4 {
        replayed(refusal(&store, &again(&done)).await);
    }
    let right = |verb, whom| format!("{verb} EXECUTE ON FUNCTION tenant.idempotency_is_free {whom} {API_ROLE}");
    owner.batch_execute(&right("REVOKE", "FROM")).await.expect("the right is gone");
    for _ in 0..4 {
        assert_eq!(kind(begin(&store, Uuid::new_v4()).await), StoreErrorKind::Refused);
    }
    owner.batch_execute(&right("GRANT", "TO")).await.expect("it is back");
    begin(&store, Uuid::new_v4()).await.expect("a transaction").roll_back().await;
}

/// A pool of their own is all theirs.
#[tokio::test]
async fn transactions_with_a_pool_of_their_own_leave_the_stores_pool_alone() {
    let database = Database::new().await;
    let (pool, transactions) = (database.pool(1), database.pool(2));
    let store = patient(pool.clone()).transaction_pool(transactions.clone());
    let connection = pool.get().await.expect("a connection");
    let user = Uuid::new_v4();
    let open = [begin(&store, user).await, begin_without_key(&store, None).await];
    assert!(open.iter().all(Result::is_ok), "{open:?}");
    assert_eq!(transactions.status().available, 0);
    drop(connection);
    assert_eq!(kind(begin_without_key(&hasty(&store), Some(user)).await), StoreErrorKind::UserLimit);
    assert_eq!(kind(begin(&hasty(&store), Uuid::new_v4()).await), StoreErrorKind::TransactionLimit);
    complete(&store, &claim(user, Uuid::new_v4()), &completion("done")).await;
    for transaction in open {
        transaction.expect("a transaction").roll_back().await;
    }
    begin(&store, user).await.expect("a transaction").roll_back().await;
}

/// It is expected, as those before it were retries: it asks for its record first.
#[tokio::test]
async fn a_retry_after_others_takes_neither_a_permit_nor_a_transaction() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = patient(pool);
    let done = new_claim();
    complete(&store, &done, &completion("done")).await;
    let retry = async || {
        replayed(refusal(&store, &again(&done)).await);
    };
    let open = join_all([(); 3].map(|()| begin(&store, Uuid::new_v4()))).await;
    assert!(open.iter().all(Result::is_ok));
    // The third one prepares the look.
    for _ in 0..3 {
        retry().await;
    }
    let before = proxy.round_trips();
    retry().await;
    assert_eq!(proxy.round_trips() - before, 1);
    drop(open);
}
