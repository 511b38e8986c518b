//! The builder of a journal.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(feature = "seal")]
use tonic_idempotency_wire::seal::Key;

#[cfg(feature = "seal")]
use super::seal::SealedStore;
use super::{
    Journal, JournalError, JournalStore, MemoryJournalStore, Resumed,
    inner::{Inner, Settings},
};

impl Journal {
    /// Opens the journal in the file at this path, or makes it, with the default settings. Its directory has to exist. Blocks.
    ///
    /// # Errors
    ///
    /// [`JournalError::InUse`] if it is open already, in this process or in another; a different error if it cannot be made or read.
    #[cfg(feature = "redb")]
    pub fn open(path: impl Into<std::path::PathBuf>) -> Result<Self, JournalError> {
        Self::builder().open(path)
    }

    /// Returns a builder.
    pub fn builder() -> JournalBuilder {
        JournalBuilder::default()
    }
}

/// Builds a [`Journal`].
#[must_use = "a builder does nothing until it opens a journal"]
pub struct JournalBuilder {
    #[cfg(feature = "seal")]
    keys: Vec<Key>,
    pub(super) settings: Settings,
}

impl Default for JournalBuilder {
    fn default() -> Self {
        let settings = Settings {
            in_place: false,
            max_age: Duration::from_secs(23 * 3600),
            metadata: Vec::new(),
            on_outcome: None,
            parallelism: 8,
            pauses: [Duration::from_secs(1), Duration::from_secs(60)],
            requires_protection: false,
        };
        Self {
            #[cfg(feature = "seal")]
            keys: Vec::new(),
            settings,
        }
    }
}

impl JournalBuilder {
    /// Sets the age beyond which an entry is not sent, because the server may have forgotten its key, and would carry it out again.
    /// Has to be less than the retention of the server's records, by more than an operation takes. Defaults to 23 hours, an hour
    /// less than the retention of `tonic-idempotency`. If an answer of the server names an earlier time (`idempotency-expires`),
    /// that time counts.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.settings.max_age = age;
        self
    }

    /// Names metadata to store with a call and to send again. The key, trace context and language are always stored, values
    /// marked as sensitive never. One warning lists the metadata of a call that is not stored. Credentials are the task of an
    /// interceptor inside the layer, which adds them to each attempt. Defaults to none.
    pub fn metadata(mut self, names: impl IntoIterator<Item: Into<String>>) -> Self {
        self.settings.metadata.extend(names.into_iter().map(|name| name.into().to_ascii_lowercase()));
        self
    }

    /// Sets a callback for entries that [`Journal::resume`] or a [`Worker`](super::Worker) has resumed and that have ended or expired. It
    /// is called before the entry is removed. If the process dies in between, it is called again for the entry: it has to be idempotent. It
    /// is not called for an entry whose caller still waits. Without a callback, failed entries stay in the journal.
    pub fn on_outcome<F>(mut self, on_outcome: impl Fn(Resumed) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.settings.on_outcome = Some(Arc::new(move |resumed| Box::pin(on_outcome(resumed))));
        self
    }

    /// Sets how many entries are sent at the same time, at least 1. A [`Worker`](super::Worker) sends up to eight times as many, if some have no
    /// answer for a second. Defaults to 8.
    pub fn parallelism(mut self, entries: usize) -> Self {
        self.settings.parallelism = entries.max(1);
        self
    }

    /// Makes no attempt of a call before an answer for its procedure has shown that the server has the layer: by `idempotency-status`,
    /// `idempotency-outcome`, a refusal other than `IDEMPOTENCY_KEY_UNSUPPORTED`, or as the answer to
    /// `OperationService.DescribeProcedure`, which is asked before the first attempt. If the server says that it does not protect the
    /// procedure, the call fails with `FAILED_PRECONDITION`, and leaves no entry. If it cannot tell, one attempt is made.
    ///
    /// An entry notes whether its process had such an answer. Without one, the server is asked before it is sent again; unless that shows the
    /// layer, it is [failed](super::EntryState::Failed), and is not sent until [`send_again`](Journal::send_again), which allows one
    /// attempt; [`on_outcome`](Self::on_outcome) does not end it. By default, the server is asked before any attempt but the first, and an
    /// entry is sent if it cannot tell: a client that dies during its first call cannot know its server, and the call has to be sent. Only
    /// after a success without `idempotency-status`, no second attempt is made.
    pub fn require_protection(mut self) -> Self {
        self.settings.requires_protection = true;
        self
    }

    /// Seals what is written with this key, for its place in the journal. The key, procedure, principal and time of an entry stay in the
    /// open. Each further call adds a key that only opens, for entries that were sealed before the key was changed. Defaults to none.
    ///
    /// An entry that does not open, because its key is not here or it was changed, stays as [failed](super::EntryState::Failed): it is not sent,
    /// and can be [given up](Journal::give_up). Entries from before the journal was sealed are read as they are. The seal does not keep
    /// anybody who can write the file from removing an entry, or from adding one in the open.
    #[cfg(feature = "seal")]
    pub fn seal(mut self, key: Key) -> Self {
        self.keys.push(key);
        self
    }

    /// Sets the first and the longest pause of the worker, 1 second and 1 minute. Only for tests.
    #[doc(hidden)]
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.pauses = [first, longest.max(first)];
        self
    }

    /// Reads and writes the store in the thread of the caller, which it blocks. For tests with a paused clock, which tokio would
    /// advance to the deadlines of calls while they wait for the journal's own thread. Defaults to a thread for writing, and tokio's
    /// threads for blocking work.
    pub fn in_place(mut self) -> Self {
        self.settings.in_place = true;
        self
    }

    /// Opens the journal in the file at this path, or makes it. Its directory has to exist. Blocks.
    ///
    /// # Errors
    ///
    /// [`JournalError::InUse`] if it is open already, in this process or in another; a different error if it cannot be made or read.
    #[cfg(feature = "redb")]
    pub fn open(self, path: impl Into<std::path::PathBuf>) -> Result<Journal, JournalError> {
        self.store(super::RedbStore::open(path)?)
    }

    /// Makes a journal in memory, which survives a lost connection, but not the end of the process.
    ///
    /// # Errors
    ///
    /// [`JournalError::Store`] if the system has no thread for it.
    pub fn in_memory(self) -> Result<Journal, JournalError> {
        self.store(MemoryJournalStore::default())
    }

    /// Opens the journal in a store. Blocks, as it reads all entries.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read, or two keys of a sealed journal have the same id.
    pub fn store(self, store: impl JournalStore) -> Result<Journal, JournalError> {
        let store: Arc<dyn JournalStore> = Arc::new(store);
        #[cfg(feature = "seal")]
        let store = if self.keys.is_empty() { store } else { Arc::new(SealedStore::new(self.keys, store)?) };
        Ok(Journal { inner: Arc::new(Inner::new(store, self.settings)?) })
    }
}

impl fmt::Debug for JournalBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalBuilder").finish_non_exhaustive()
    }
}
