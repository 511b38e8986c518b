//! The life of a server's process, which a test can end.

use std::{
    future::pending,
    pin::pin,
    sync::{Arc, Mutex, Weak},
};

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use super::lock;
use crate::store::StoreTransaction;

/// A process of the server. Clones stand for the same process.
#[derive(Clone, Debug, Default)]
pub(super) struct Process(Arc<Life>);

#[derive(Debug, Default)]
struct Life {
    /// Cancelled when it dies: all of its work stops.
    dead: CancellationToken,
    /// Cancelled when its connections are closed after that: those to the store, and those of its callers.
    closed: CancellationToken,
    transactions: Mutex<Vec<Weak<Slot>>>,
}

/// An open transaction; empty once it or its process has ended.
pub(super) type Slot = Mutex<Option<Box<dyn StoreTransaction>>>;

impl Process {
    /// Runs a part of the process's work. If the process dies, the work is dropped, and this never returns.
    pub(super) async fn live<T>(&self, work: impl Future<Output = T>) -> T {
        // Checks for death first: work that becomes ready at the same moment must not run.
        if let Either::Right((done, _)) = select(pin!(self.0.dead.cancelled()), Box::pin(work)).await {
            return done;
        }
        pending().await
    }

    /// Waits for the answer of the process; `None` if its connections are closed before.
    pub(super) async fn answer<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        self.0.closed.run_until_cancelled(answer).await
    }

    /// Keeps a transaction until the result is dropped, or the process dies.
    pub(super) fn keep(&self, transaction: Box<dyn StoreTransaction>) -> Arc<Slot> {
        let mut transactions = lock(&self.0.transactions);
        let alive = !self.0.dead.is_cancelled();
        let slot = Arc::new(Mutex::new(alive.then_some(transaction)));
        transactions.retain(|transaction| transaction.strong_count() > 0);
        transactions.push(Arc::downgrade(&slot));
        slot
    }

    /// Ends the process at once, at whatever step it is.
    pub(super) fn die(&self) {
        self.0.dead.cancel();
    }

    /// Closes the connections of the process, which has died: its transactions are rolled back, and its callers get no answer.
    pub(super) async fn close(&self) {
        let transactions = std::mem::take(&mut *lock(&self.0.transactions));
        for slot in transactions.iter().filter_map(Weak::upgrade) {
            let open = lock(&slot).take();
            if let Some(open) = open {
                open.roll_back().await;
            }
        }
        self.0.closed.cancel();
    }
}
