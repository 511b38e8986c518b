//! Calls in transactional mode that create an order, which is on the node of the record.

use tonic_idempotency::store::TransactionError;

use crate::prelude::*;

/// The end of a call.
#[derive(Debug)]
pub(super) enum Ended {
    Committed,
    /// The key was not free.
    Refused(ClaimOutcome),
    /// Another call was recorded first.
    Superseded,
}

/// A call of this user with a new key. Its orders have no status.
pub(super) fn of(user: Uuid) -> Claim {
    Claim { resource_type: None, ..claim(user, Uuid::new_v4()) }
}

/// An open transaction of the call, and its handler's handle.
pub(super) async fn open(
    store: &PostgresStore,
    claim: &Claim,
) -> Result<(Box<dyn StoreTransaction>, Transaction), ClaimOutcome> {
    open_with(store, claim, TransactionOptions::default()).await
}

/// The same with other options.
pub(super) async fn open_with(
    store: &PostgresStore,
    claim: &Claim,
    options: TransactionOptions,
) -> Result<(Box<dyn StoreTransaction>, Transaction), ClaimOutcome> {
    match store.begin(claim, options).await.expect("the store answers") {
        BeginOutcome::Open { transaction, .. } => Ok(with_handle(transaction)),
        BeginOutcome::Refused(outcome) => Err(outcome),
        other => panic!("{other:?}"),
    }
}

fn with_handle(transaction: Box<dyn StoreTransaction>) -> (Box<dyn StoreTransaction>, Transaction) {
    let handle = handle_of(&*transaction);
    (transaction, handle)
}

/// Inserts an order of this user, whose name is the key of the call.
pub(super) async fn insert(handle: &Transaction, user: Uuid, key: Uuid) -> Result<(), TransactionError> {
    let insert = "INSERT INTO app.orders (user_id, name) VALUES ($1, $2)";
    handle.execute_typed(insert, &[(&user, Type::UUID), (&key.to_string(), Type::TEXT)]).await.map(drop)
}

/// The transaction of a call whose handler has created one order.
pub(super) async fn ordering(store: &PostgresStore, claim: &Claim) -> Box<dyn StoreTransaction> {
    let (transaction, handle) = open(store, claim).await.expect("the key is free");
    insert(&handle, *claim.reservation.owner.as_uuid(), Uuid::new_v4()).await.expect("an order");
    transaction
}

/// Runs a call whose handler creates one order.
pub(super) async fn order(store: &PostgresStore, claim: &Claim) -> Result<Ended, StoreError> {
    run(store, claim, false).await
}

/// Runs a call whose handler creates an order and a project, which is on all nodes. The project's id is the key.
pub(super) async fn order_and_project(store: &PostgresStore, claim: &Claim) -> Result<Ended, StoreError> {
    run(store, claim, true).await
}

async fn run(store: &PostgresStore, claim: &Claim, with_project: bool) -> Result<Ended, StoreError> {
    let (transaction, handle) = match store.begin(claim, TransactionOptions::default()).await? {
        BeginOutcome::Open { transaction, .. } => with_handle(transaction),
        BeginOutcome::Refused(outcome) => return Ok(Ended::Refused(outcome)),
        other => panic!("{other:?}"),
    };
    let (user, key) = (*claim.reservation.owner.as_uuid(), *claim.reservation.key.as_uuid());
    let mut inserted = insert(&handle, user, key).await;
    if with_project && inserted.is_ok() {
        let insert = "INSERT INTO app.projects (id) VALUES ($1)";
        inserted = handle.execute_typed(insert, &[(&key, Type::UUID)]).await.map(drop);
    }
    drop(handle);
    if let Err(error) = inserted {
        transaction.roll_back().await;
        return Err(StoreError::new(StoreErrorKind::Interrupted, error));
    }
    match transaction.commit(Some(completion("ordered"))).await? {
        CommitOutcome::Committed => Ok(Ended::Committed),
        CommitOutcome::Superseded => Ok(Ended::Superseded),
        other => panic!("{other:?}"),
    }
}
