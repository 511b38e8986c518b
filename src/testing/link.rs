//! The way from a process to its store, which a test can cut.

use std::{
    error::Error,
    future::pending,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::Extensions;

use super::{
    lock,
    process::{Process, Slot},
};
use crate::store::{
    CommitOutcome, Completion, RollBackOutcome, StoreError, StoreErrorKind, StoreTransaction, TransactionTimes,
};

/// The way from a process to its store.
#[derive(Clone, Debug)]
pub(super) struct Link {
    process: Process,
    is_cut: Arc<AtomicBool>,
}

impl Link {
    pub(super) fn new(process: &Process, is_cut: &Arc<AtomicBool>) -> Self {
        Self { process: process.clone(), is_cut: Arc::clone(is_cut) }
    }

    /// Asks the store, unless it cannot be reached.
    pub(super) async fn ask<T>(&self, operation: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let ask = async { if self.is_cut() { Err(unreachable()) } else { operation.await } };
        self.process.live(ask).await
    }

    /// A transaction that ends with the process, and cannot be committed while the way is cut.
    pub(super) fn transaction(&self, transaction: Box<dyn StoreTransaction>) -> Box<dyn StoreTransaction> {
        Box::new(LinkedTransaction { slot: self.process.keep(transaction), link: self.clone() })
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }
}

fn unreachable() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "the test has made the store unavailable")
}

#[derive(Debug)]
struct LinkedTransaction {
    slot: Arc<Slot>,
    link: Link,
}

impl LinkedTransaction {
    /// Looks at the transaction; `None` if its process has died.
    fn look<T>(&self, look: impl FnOnce(&dyn StoreTransaction) -> T) -> Option<T> {
        lock(&self.slot).as_deref().map(look)
    }
}

impl StoreTransaction for LinkedTransaction {
    fn hand_out(&self, extensions: &mut Extensions) {
        self.look(|transaction| transaction.hand_out(extensions));
    }

    fn was_used(&self) -> bool {
        self.look(|transaction| transaction.was_used()).unwrap_or(true)
    }

    fn times(&self) -> Option<TransactionTimes> {
        self.look(|transaction| transaction.times()).flatten()
    }

    fn is_in_conflict(&self, answer: Option<&(dyn Error + 'static)>) -> bool {
        self.look(|transaction| transaction.is_in_conflict(answer)).unwrap_or(false)
    }

    fn commit(
        self: Box<Self>,
        completion: Option<Completion>,
    ) -> Pin<Box<dyn Future<Output = Result<CommitOutcome, StoreError>> + Send>> {
        Box::pin(async move {
            let open = lock(&self.slot).take();
            let Some(open) = open else { return pending().await };
            if self.link.is_cut() {
                open.roll_back().await;
                return Err(unreachable());
            }
            self.link.process.live(open.commit(completion)).await
        })
    }

    fn roll_back(self: Box<Self>) -> Pin<Box<dyn Future<Output = RollBackOutcome> + Send>> {
        Box::pin(async move {
            let open = lock(&self.slot).take();
            let Some(open) = open else { return pending().await };
            let is_cut = self.link.is_cut();
            let outcome = open.roll_back().await;
            if is_cut { RollBackOutcome::Lost } else { outcome }
        })
    }
}
