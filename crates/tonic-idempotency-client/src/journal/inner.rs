//! The shared state behind all clones of a journal: its index, settings, store and writer.

use std::{
    collections::HashMap,
    error::Error as _,
    fmt,
    sync::{Arc, Mutex, Once, PoisonError},
    time::{Duration, SystemTime},
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName};
use tokio::{sync::oneshot, task::spawn_blocking, time::Instant};
use tonic::Status;
use tonic_idempotency_wire::{Rare, headers};

use super::{
    Change, Entry, JournalError, JournalStore, Resumed,
    entry::Protection,
    evidence::Evidence,
    index::{Index, Slot},
    record::decode,
    writer::{Purpose, Writer},
};
use crate::{
    description::ProcedureQuestion,
    expiry::Expiry,
    permission::{Demand, Permission, Standing},
};

/// The number of times that a pause doubles.
const GROWTHS: u32 = 32;

/// The metadata that is always stored: what makes a call one of gRPC, its key, trace context and language.
const KEPT: [&str; 11] = [
    headers::KEY,
    "accept-language",
    "baggage",
    "content-type",
    "grpc-accept-encoding",
    "grpc-encoding",
    "grpc-timeout",
    "grpc-trace-bin",
    "te",
    "traceparent",
    "tracestate",
];

type OnOutcome = dyn Fn(Resumed) -> BoxFuture<'static, ()> + Send + Sync;

/// The settings of a journal.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Whether the store is asked without a thread for it.
    pub(crate) in_place: bool,
    pub(crate) max_age: Duration,
    /// The names of metadata that is stored besides [`KEPT`].
    pub(crate) metadata: Vec<String>,
    pub(crate) on_outcome: Option<Arc<OnOutcome>>,
    pub(crate) parallelism: usize,
    pub(crate) pauses: [Duration; 2],
    pub(crate) requires_protection: bool,
}

impl Settings {
    /// The time after which an entry is not sent any more.
    pub(crate) fn expires(&self, entry: &Entry) -> Expiry {
        // The clock may have been ahead when it was written.
        let by_age = entry.written.min(SystemTime::now()).checked_add(self.max_age);
        Expiry::at(by_age.into_iter().chain(entry.protected_until).min().unwrap_or(entry.written))
    }

    /// Whether metadata with this name is stored.
    pub(crate) fn keeps(&self, name: &HeaderName) -> bool {
        KEPT.contains(&name.as_str()) || self.metadata.iter().any(|kept| kept == name.as_str())
    }

    /// The pause before an entry is sent again that no retry helps.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.pauses[1].mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The pause after this number of failures: a random part of a time that doubles with each.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let [first, longest] = self.pauses;
        let pauses = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
        let pause = pauses.build().nth(failures.min(GROWTHS) as usize).unwrap_or(longest);
        pause.mul_f64(fastrand::f64())
    }
}

/// The shared state of a journal's clones.
pub(crate) struct Inner {
    pub(crate) evidence: Evidence,
    pub(crate) index: Arc<Index>,
    /// The questions for the procedures of entries whose servers have not shown the layer.
    questions: Mutex<HashMap<String, Arc<ProcedureQuestion>>>,
    rare: Rare,
    pub(crate) settings: Settings,
    store: Arc<dyn JournalStore>,
    /// The warnings, each logged once: metadata of a call is not stored; resumed calls have no credentials.
    told_of_metadata: Once,
    told_of_credentials: Once,
    /// Locked from the decision on an entry until its change is queued, so that changes are made in the order of decisions.
    writer: Mutex<Writer>,
}

impl Inner {
    pub(crate) fn new(store: Arc<dyn JournalStore>, settings: Settings) -> Result<Self, JournalError> {
        let ids = store.ids()?;
        let (mut slots, mut sealed) = (Vec::with_capacity(ids.len()), Vec::new());
        for id in &ids {
            match store.read(*id)?.map(|record| decode(*id, record)) {
                Some(Ok(entry)) => {
                    slots.push((*id, Slot::of(&entry, settings.expires(&entry))));
                    sealed.extend(entry.error.filter(|_| entry.is_sealed));
                }
                Some(Err(error)) => tracing::warn!(
                    error = error.source().map(tracing::field::display),
                    "{error}; it stays in the store, and is not sent"
                ),
                None => {}
            }
        }
        if let Some(error) = sealed.first() {
            tracing::warn!(
                entries = sealed.len(),
                error = error.message(),
                "sealed entries of the journal do not open; they stay, as failed, and are not sent"
            );
        }
        let index = Arc::new(Index::new(ids.last().copied().unwrap_or_default(), slots));
        let writer = Writer::start(Arc::clone(&store), Arc::clone(&index), settings.in_place)
            .map_err(|error| JournalError::store("(no thread)", error))?;
        let (told_of_metadata, told_of_credentials) = (Once::new(), Once::new());
        let (evidence, rare, writer) = (Evidence::default(), Rare::default(), Mutex::new(writer));
        let questions = Mutex::default();
        Ok(Self { evidence, index, questions, rare, settings, store, told_of_metadata, told_of_credentials, writer })
    }

    /// Logs, once, the metadata of a call that is not stored.
    pub(crate) fn tell_of_metadata(&self, headers: &HeaderMap) {
        if self.told_of_metadata.is_completed() || headers.keys().all(|name| self.settings.keeps(name)) {
            return;
        }
        self.told_of_metadata.call_once(|| {
            let names: Vec<_> =
                headers.keys().filter(|name| !self.settings.keeps(name)).map(HeaderName::as_str).collect();
            tracing::warn!(
                ?names,
                "metadata that is not stored in the journal, so that a call which is resumed lacks it: name it with \
                 `JournalBuilder::metadata`, or let an interceptor between the layer and the channel add it"
            );
        });
    }

    /// Returns the protection of an entry that is written, or left after it was sent.
    pub(crate) fn protection(&self, entry: &Entry) -> Protection {
        match entry.protection {
            Protection::Unknown | Protection::Waived if !self.evidence.has(&entry.procedure) => Protection::Unknown,
            _ => Protection::Seen,
        }
    }

    /// Returns whether an entry may be sent, as far as its journal requires protection: it may have been sent before. The layer decides
    /// about the rest.
    pub(crate) fn permission(&self, entry: &Entry) -> Permission {
        if !self.settings.requires_protection || entry.protection == Protection::Waived {
            return Permission::Granted;
        }
        let standing = match self.protection(entry) {
            Protection::Seen => Standing::Shown,
            Protection::Unknown | Protection::Waived => Standing::Unknown,
        };
        Permission::of(Demand::Shown, standing, false)
    }

    /// Returns the question whether the server of an entry protects its procedure.
    pub(crate) fn question(&self, procedure: &str) -> Arc<ProcedureQuestion> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(questions.entry(procedure.to_owned()).or_default())
    }

    /// Logs that entries are left, once a minute for each procedure and reason.
    pub(crate) fn tell_of_unresolved(&self, procedure: &str, reason: &str, error: &Status) {
        if let Some(attempts) = self.rarely(procedure, reason) {
            tracing::warn!(
                procedure,
                reason,
                error = error.message(),
                attempts,
                "operations of the journal have not ended, and are sent again later"
            );
        }
    }

    /// Counts an attempt of which a line tells at most once a minute, for each procedure and reason. Returns the number of attempts that it
    /// tells of; `None` if it is not to be written now.
    pub(crate) fn rarely(&self, procedure: &str, reason: &str) -> Option<u64> {
        self.rare.calls([procedure.to_owned().into(), reason.to_owned().into()], Instant::now().into_std())
    }

    /// Logs, once, that resumed calls have no credentials.
    pub(crate) fn tell_of_credentials(&self, procedure: &str) {
        self.told_of_credentials.call_once(|| {
            tracing::warn!(
                procedure,
                "a call that is resumed is refused as unauthenticated: its credentials have expired, or there are none; an interceptor that \
                 adds them has to be between the layer and the channel, `layer.layer(InterceptedService::new(channel, interceptor))`"
            );
        });
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

    /// Ends an entry, without waiting until that is durable: if the end is lost, the entry is sent again, and its answer is a replay.
    pub(crate) fn end(&self, id: u64, remove: impl FnOnce(&Index) -> bool) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if remove(&self.index) {
            drop(writer.hand(Change::Remove { id }, Purpose::End));
        }
    }

    /// Replaces an entry, unless it has ended; the future ends when that is durable.
    pub(crate) fn note(&self, id: u64, entry: &Entry) -> impl Future<Output = Result<(), JournalError>> + Send + use<> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
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
        }
        self.index.revive(id);
        Ok(())
    }

    /// Reads an entry that is to be sent; `None` if it has ended.
    pub(crate) async fn read(&self, id: u64) -> Result<Option<Entry>, JournalError> {
        match self.look(id).await? {
            Some(Entry { is_sealed: true, error, .. }) => {
                let why = error.map_or_else(String::new, |error| error.message().to_owned());
                Err(JournalError::store(format!("entry {id}"), why))
            }
            read => Ok(read),
        }
    }

    /// Reads an entry, as far as it opens; `None` if it has ended.
    pub(crate) async fn look(&self, id: u64) -> Result<Option<Entry>, JournalError> {
        self.with_store(move |store| store.read(id)?.map(|record| decode(id, record)).transpose()).await
    }

    /// Asks the store, in a thread for that.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn JournalStore) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        if self.settings.in_place {
            return ask(&*self.store);
        }
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::journal::JournalBuilder;

    #[test]
    fn an_entry_that_was_written_while_the_clock_was_ahead_is_not_sent_for_longer() {
        let (mut parts, ()) =
            http::Request::post("http://shop/shop.v1.Orders/Create").body(()).expect("a request").into_parts();
        parts.headers.insert(headers::KEY, HeaderValue::from_static("k-1"));
        let mut entry = Entry::of(&parts, bytes::Bytes::new(), None, |_| true).expect("a key");
        let settings = JournalBuilder::default().settings;
        for (ahead, longest) in [(0, 23), (48, 23), (1000, 23)] {
            entry.written = SystemTime::now() + Duration::from_secs(ahead * 3600);
            let left = settings.expires(&entry).left();
            assert!(!left.is_zero() && left <= Duration::from_secs(longest * 3600), "{ahead}: {left:?}");
        }
    }
}
