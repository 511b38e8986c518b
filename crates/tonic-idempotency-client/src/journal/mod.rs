//! A journal of operations, so that a client survives its own death.
//!
//! An operation is written down, with its key, **before** it is sent, and struck out when it has ended. If the process dies, the next one
//! sends the remaining operations with the same keys, so that each happens once.
//!
//! ```no_run
//! use tonic::transport::Channel;
//! use tonic_idempotency_client::{IdempotencyClientLayer, Layer as _, journal::Journal};
//!
//! # struct OrderServiceClient<T>(T);
//! # impl<T> OrderServiceClient<T> { fn new(channel: T) -> Self { Self(channel) } }
//! # fn make(channel: Channel, file_descriptor_set: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let journal = Journal::open("orders.journal")?;
//! let layer = IdempotencyClientLayer::builder(file_descriptor_set).journal(journal.clone()).build()?;
//! let channel = layer.layer(channel);
//! let _worker = journal.spawn(channel.clone());
//! let client = OrderServiceClient::new(channel);
//! # Ok(())
//! # }
//! ```
//!
//! # Which calls are written down
//!
//! Calls of procedures that take keys. A call of a procedure that is repeatable without a key is not written down. A stream cannot be
//! written down. Nor can a message larger than [`max_request_bytes`](crate::IdempotencyClientBuilder::max_request_bytes). Such a call is
//! refused, and not sent.
//!
//! # What ends an entry
//!
//! | the call | its entry |
//! |---|---|
//! | gets a response, or an error that the server's layer marks as this operation's own | ends |
//! | gets another error for its first attempt, with a code that neither proxies nor transports make | ends |
//! | gets a response above [`max_response_bytes`](crate::IdempotencyClientBuilder::max_response_bytes) with `idempotency-status` | ends; its caller gets `OUT_OF_RANGE`, with the size |
//! | gets anything else, or uses up its attempts, its budget or its deadline: its outcome is unknown | stays; its caller gets [`Unresolved`](crate::Unresolved) |
//! | is sent by [`Journal::resume`] or a [`Worker`], and gets an error that ends it | stays, [failed](EntryState::Failed), until the application acknowledges it |
//! | is sent so, and can never be sent: its key has expired at the server, or it is larger than a lower `max_request_bytes` | the same |
//! | is sent so, and gets an answer that only a change elsewhere helps, such as a missing grant, or HTTP 404 | stays, and is sent again after the longest pause, a minute |
//! | is new, and its server says that it does not protect the procedure, if the journal [requires](JournalBuilder::require_protection) it | ends; its caller gets `FAILED_PRECONDITION`, and it is not sent |
//! | may have been sent, and no answer has shown the layer, if the journal requires one | stays, failed: it is not sent |
//! | may have been sent, and its server says that it does not protect the procedure, if the journal does not require it | stays, and the server is asked again after the longest pause |
//! | is dropped by its caller | stays, and is sent again |
//! | dies with its process | stays |
//! | is older than [`max_age`](JournalBuilder::max_age), or outlives the protection of its key, as told by the server | stays, [expired](EntryOutcome::Expired): it is not sent, as it could happen twice |
//!
//! A failed entry that no caller waits for stays in [`Journal::entries`] and [`Journal::export`] until it is
//! [sent again](Journal::send_again) or [given up](Journal::give_up). With [`on_outcome`](JournalBuilder::on_outcome), it ends as soon as
//! the callback has run; if that panics, the entry is sent again after a minute. [`Journal::give_up`] ends any entry. The caller gets its
//! answer first. The end of the entry is written after that, with the next write. If the process dies in between, the entry is sent once
//! more, and the server replays the answer.
//!
//! The log has a warning for entries that are left, once a minute for each procedure and reason.
//!
//! # What is stored
//!
//! The key, the procedure, the encoded message, trace context, language and the metadata that is
//! [named](JournalBuilder::metadata), the time that the call may take, [`Lane`] and [`Principal`]. The file is readable only by its owner. With
//! `JournalBuilder::seal` (feature `seal`), only the holder of a key reads more than key, procedure, principal and time of an entry.
//!
//! Put the interceptor that adds credentials *inside* the layer
//! (`layer.layer(InterceptedService::new(channel, authenticate))`): then calls that are resumed have them, too.
//!
//! # What it costs
//!
//! One fsync for each call before it is sent. Calls that come at the same time share one fsync: all changes that wait while the disk is
//! busy become one transaction. The journal writes them on a thread of its own, so that no thread of tokio's is blocked.
//!
//! | module | holds |
//! |---|---|
//! | `builder`, `inner` | the settings, and what clones share |
//! | `entry`, `record`, `lane` | an entry, its stored form, and the settings of single calls |
//! | `index` | which entries are under way, and which are sent next |
//! | `held_entry` | an entry that this process sends |
//! | `evidence` | which servers have shown the layer |
//! | `resume`, `worker`, `entry_outcome` | sending the remaining entries, once or in the background |
//! | `store`, `redb`, `seal`, `writer` | the contract of a store, the store in a file, the seal in front of a store, the thread that writes |

mod builder;
mod entry;
mod entry_outcome;
mod error;
mod evidence;
pub(crate) mod held_entry;
mod index;
mod inner;
mod lane;
mod record;
#[cfg(feature = "redb")]
mod redb;
mod resume;
#[cfg(feature = "seal")]
mod seal;
mod store;
mod worker;
mod writer;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body as HttpBody;
use tonic::body::Body;
use tower_service::Service;

#[cfg(feature = "redb")]
pub use self::redb::RedbStore;
pub use self::{
    builder::JournalBuilder,
    entry::{Entry, EntryState},
    entry_outcome::{EntryOutcome, Reply, Resumed},
    error::JournalError,
    lane::{Lane, Principal},
    store::{Change, JournalStore, MemoryJournalStore},
    worker::Worker,
};
pub(crate) use self::{entry::Protection, resume::FromJournal};
use self::{
    held_entry::{HeldEntry, HoldError},
    inner::Inner,
    record::decode,
    writer::Purpose,
};
use crate::{BoxError, OperationKey};

/// The operations of a client that have not ended. Clones are the same journal.
///
/// See the [module](self). Dropping the last clone waits until the last ends of entries are written.
#[derive(Clone, Debug)]
pub struct Journal {
    inner: Arc<Inner>,
}

impl Journal {
    /// Sends each entry once, with its own key, unless a call or a worker of this process is sending it. Returns the outcomes, in the
    /// order in which the entries were written. `service` is the client's service, with the layer. The layer's retries apply.
    ///
    /// At most [`parallelism`](JournalBuilder::parallelism) entries are under way at a time. Entries of one [`Lane`] are sent one after the
    /// other.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the entries that have not ended stay in the journal.
    pub async fn resume<S, B>(&self, service: S) -> Vec<Resumed>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        resume::all(&self.inner, &service).await
    }

    /// Sends entries in the background, until the worker is dropped: those that an earlier process has left, and calls of this process
    /// whose outcome is unknown. `service` is the client's service, with the layer.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn spawn<S, B>(&self, service: S) -> Worker
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Worker::spawn(Arc::clone(&self.inner), service)
    }

    /// Returns all entries, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read.
    pub async fn entries(&self) -> Result<Vec<Entry>, JournalError> {
        let states = self.inner.index.states();
        let read = move |store: &dyn JournalStore| {
            let mut entries = Vec::with_capacity(states.len());
            for (id, state) in states {
                if let Some(record) = store.read(id)? {
                    let mut entry = decode(id, record)?;
                    entry.state = state;
                    entries.push(entry);
                }
            }
            Ok(entries)
        };
        self.inner.with_store(read).await
    }

    /// Returns all entries as lines of JSON, each an object with `attempts`, `error`, `headers` (pairs), `key`, `lane`, `message`
    /// (in Base64), `principal`, `procedure`, `protectedUntil`, `state`, `timeout` and `written`. Times are in milliseconds.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read.
    pub async fn export(&self) -> Result<String, JournalError> {
        Ok(self.entries().await?.iter().map(|entry| entry.to_json() + "\n").collect())
    }

    /// Returns the [failed](EntryState::Failed) entries with this key, of any principal, and lets them be sent again.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read or written, or if an entry is sealed and does not open.
    pub async fn send_again(&self, key: &OperationKey) -> Result<Vec<Entry>, JournalError> {
        let mut entries = Vec::new();
        for id in self.inner.index.with_key(key) {
            if let Some(mut entry) = self.inner.read(id).await?.filter(|entry| entry.error.is_some()) {
                if self.inner.settings.requires_protection {
                    entry.protection = Protection::Waived;
                }
                self.inner.revive(id, entry.clone()).await?;
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    /// Ends the entries with this key, of any principal, and returns them. A call that is under way goes on.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read, or the end is not durable. Then this process does not send the entries, but the next
    /// process may.
    pub async fn give_up(&self, key: &OperationKey) -> Result<Vec<Entry>, JournalError> {
        let mut entries = Vec::new();
        for id in self.inner.index.with_key(key) {
            entries.extend(self.inner.look(id).await?);
            if self.inner.index.remove(id) {
                self.inner.hand(Change::Remove { id }, Purpose::End).await?;
            }
        }
        Ok(entries)
    }

    /// The entry of a request that has a key.
    pub(crate) fn entry(&self, parts: &Parts, frame: Bytes, timeout: Option<Duration>) -> Option<Entry> {
        self.inner.tell_of_metadata(&parts.headers);
        let mut entry = Entry::of(parts, frame, timeout, |name| self.inner.settings.keeps(name))?;
        entry.protection = self.inner.protection(&entry);
        Some(entry)
    }

    /// Notes an answer that shows whether the server has the layer for this procedure.
    pub(crate) fn heard(&self, procedure: &str, is_protected: bool) {
        self.inner.evidence.note(procedure, is_protected);
    }

    /// Whether the last answer for this procedure that tells has shown the layer.
    pub(crate) fn has_heard(&self, procedure: &str) -> bool {
        self.inner.evidence.has(procedure)
    }

    /// Whether it requires that a server has shown the layer before a call is sent again.
    pub(crate) fn requires_protection(&self) -> bool {
        self.inner.settings.requires_protection
    }

    /// Writes an entry. When the future completes, the entry is durable.
    pub(crate) async fn write(&self, entry: &mut Entry) -> Result<HeldEntry, HoldError> {
        HeldEntry::write(Arc::clone(&self.inner), entry).await
    }
}
