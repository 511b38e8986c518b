//! What the clones of a journal share.

use std::{
    error::Error as _,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures_util::future::BoxFuture;
use http::HeaderName;
use tokio::{sync::oneshot, task::spawn_blocking};

use super::{
    Change, Entry, JournalError, JournalStore, Resumed,
    entry::decode,
    index::{Index, Slot},
    writer::{Purpose, Writer},
};

/// The number of pauses after which they do not grow.
const GROWTHS: u32 = 32;

type OnOutcome = dyn Fn(Resumed) -> BoxFuture<'static, ()> + Send + Sync;

/// The settings of a journal.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) max_age: Duration,
    pub(crate) on_outcome: Option<Arc<OnOutcome>>,
    pub(crate) parallelism: usize,
    pub(crate) pauses: [Duration; 2],
    pub(crate) stores: Arc<dyn Fn(&HeaderName) -> bool + Send + Sync>,
}

impl Settings {
    /// When an entry may not be sent any more.
    pub(crate) fn expires(&self, entry: &Entry) -> SystemTime {
        let by_age = entry.written.checked_add(self.max_age);
        by_age.into_iter().chain(entry.protected_until).min().unwrap_or(entry.written)
    }

    /// The pause after so many failures: a random part of a time that doubles.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let [first, longest] = self.pauses;
        let pauses = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
        let pause = pauses.build().nth(failures.min(GROWTHS) as usize).unwrap_or(longest);
        pause.mul_f64(fastrand::f64())
    }
}

/// What the clones of a journal share.
pub(crate) struct Inner {
    pub(crate) index: Arc<Index>,
    pub(crate) settings: Settings,
    store: Arc<dyn JournalStore>,
    /// Locked to decide on an entry and hand the decision over, so that the last decision is the last change.
    writer: Mutex<Writer>,
}

impl Inner {
    pub(crate) fn new(store: Arc<dyn JournalStore>, settings: Settings) -> Result<Self, JournalError> {
        let ids = store.ids()?;
        let mut slots = Vec::with_capacity(ids.len());
        for id in &ids {
            match store.read(*id)?.map(|record| decode(*id, record)) {
                Some(Ok(entry)) => slots.push((*id, Slot::of(&entry, settings.expires(&entry)))),
                Some(Err(error)) => tracing::warn!(
                    error = error.source().map(tracing::field::display),
                    "{error}; it stays in the store, and is not sent"
                ),
                None => {}
            }
        }
        let index = Arc::new(Index::new(ids.last().copied().unwrap_or_default(), slots));
        let writer = Writer::start(Arc::clone(&store), Arc::clone(&index))
            .map_err(|error| JournalError::store("(no thread)", error))?;
        Ok(Self { index, settings, store, writer: Mutex::new(writer) })
    }

    /// Hands a change to the writer; ends when it is durable.
    pub(crate) fn hand(
        &self,
        change: Change,
        purpose: Purpose,
    ) -> impl Future<Output = Result<(), JournalError>> + Send + 'static {
        let receiver = self.writer.lock().unwrap_or_else(PoisonError::into_inner).hand(change, purpose);
        durable(receiver)
    }

    /// Ends an entry. Nobody waits until that is durable: if it is lost, the entry is sent again, and its answer is a replay.
    pub(crate) fn end(&self, id: u64) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.index.remove(id) {
            drop(writer.hand(Change::Remove { id }, Purpose::End));
        }
    }

    /// Replaces an entry, unless it has ended; the future ends when that is durable.
    pub(crate) fn note(&self, id: u64, entry: &Entry) -> impl Future<Output = Result<(), JournalError>> + Send + use<> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let change = Change::Put { id, record: entry.encode() };
        let receiver = self.index.contains(id).then(|| writer.hand(change, Purpose::Note));
        async move {
            match receiver {
                Some(receiver) => durable(receiver).await,
                None => Ok(()),
            }
        }
    }

    /// Lets an entry be sent again if it has failed. When this ends, that is durable.
    pub(crate) async fn revive(&self, id: u64, mut entry: Entry) -> Result<(), JournalError> {
        if entry.error.take().is_some() {
            self.note(id, &entry).await?;
            self.index.revive(id);
        }
        Ok(())
    }

    /// Reads an entry; `None` if it has ended.
    pub(crate) async fn read(&self, id: u64) -> Result<Option<Entry>, JournalError> {
        self.with_store(move |store| store.read(id)?.map(|record| decode(id, record)).transpose()).await
    }

    /// Asks the store, in a thread for that.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn JournalStore) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let store = Arc::clone(&self.store);
        let asked = spawn_blocking(move || ask(&*store)).await;
        asked.unwrap_or_else(|error| Err(JournalError::store("(its store)", error)))
    }
}

async fn durable(receiver: oneshot::Receiver<Result<(), JournalError>>) -> Result<(), JournalError> {
    receiver.await.map_err(|error| JournalError::store("(its thread ended)", error))?
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("index", &self.index).finish_non_exhaustive()
    }
}
