//! A client with a journal, and stores that can be watched.

use std::sync::Condvar;

use tonic::transport::Channel;
use tonic_idempotency_client::{
    IdempotencyClient, IdempotencyClientBuilder, IdempotencyClientLayer, OperationKey, Unresolved,
    journal::{JournalBuilder, JournalStore, MemoryJournalStore},
};
use tonic_idempotency_tests::shop::FILE_DESCRIPTOR_SET;

use super::foreign::{Foreign, order};
use super::prelude::*;

pub(crate) type Service = IdempotencyClient<Channel>;

/// A client with a journal, of a server that is not ours.
pub(crate) struct Setup {
    pub(crate) client: ShopClient<Service>,
    pub(crate) journal: Journal,
    pub(crate) server: Foreign,
    pub(crate) service: Service,
}

impl Setup {
    /// A client whose operations have at most three attempts.
    pub(crate) async fn new(journal: Journal) -> Self {
        Self::with(Foreign::default(), journal, |layer| layer.max_attempts(3)).await
    }

    pub(crate) async fn in_memory() -> Self {
        Self::new(in_memory(|journal| journal)).await
    }

    pub(crate) async fn with(
        server: Foreign,
        journal: Journal,
        set: impl FnOnce(IdempotencyClientBuilder) -> IdempotencyClientBuilder,
    ) -> Self {
        let service = layer(&journal, set).layer(server.channel().await);
        Self { client: ShopClient::new(service.clone()), journal, server, service }
    }

    /// Makes calls with these keys that find the server away in all of their attempts, and stay in the journal.
    pub(crate) async fn leave(&mut self, keys: impl IntoIterator<Item = impl AsRef<str>>) {
        for key in keys {
            self.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
            self.client.create_order(keyed("shop", key.as_ref())).await.expect_err("the server is away");
            self.server.clear();
        }
        self.server.seen();
    }

    /// The keys of the journal's entries, in their order.
    pub(crate) async fn keys(&self) -> Vec<String> {
        keys(&self.journal).await
    }
}

/// A layer with a journal and short pauses.
pub(crate) fn layer(
    journal: &Journal,
    set: impl FnOnce(IdempotencyClientBuilder) -> IdempotencyClientBuilder,
) -> IdempotencyClientLayer {
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).journal(journal.clone());
    set(layer.backoff(Duration::from_millis(1), Duration::from_millis(50))).build().expect("the layer")
}

pub(crate) fn in_memory(set: impl FnOnce(JournalBuilder) -> JournalBuilder) -> Journal {
    set(Journal::builder()).in_memory().expect("a journal")
}

pub(crate) async fn keys(journal: &Journal) -> Vec<String> {
    journal.entries().await.expect("the entries").iter().map(|entry| entry.key.to_string()).collect()
}

/// A request with this key.
pub(crate) fn keyed(name: &str, key: &str) -> Request<CreateOrderRequest> {
    let mut request = Request::new(order(name));
    request.extensions_mut().insert(self::key(key));
    request
}

pub(crate) fn key(text: &str) -> OperationKey {
    OperationKey::from_text(text).expect("a key")
}

/// A new directory, removed with its contents when it is dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("idempotency-journal-{}", Uuid::new_v4()));
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a journal in it.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("orders.journal")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Fails if a test has removed it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A store in memory that can be held, can fail, and notes its commits. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    changed: Condvar,
    memory: MemoryJournalStore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    commits: Vec<Vec<Change>>,
    fails: Option<JournalError>,
    fails_to_read: Option<JournalError>,
    is_held: bool,
    waiting: usize,
}

impl Watched {
    /// Lets no commit end.
    pub(crate) fn hold(&self) {
        self.inner.state.lock().expect("no panic").is_held = true;
    }

    pub(crate) fn let_go(&self) {
        self.inner.state.lock().expect("no panic").is_held = false;
        self.inner.changed.notify_all();
    }

    /// Whether a commit is held.
    pub(crate) fn holds_one(&self) -> bool {
        self.inner.state.lock().expect("no panic").waiting > 0
    }

    /// Lets every commit fail.
    pub(crate) fn fail(&self, error: Option<JournalError>) {
        self.inner.state.lock().expect("no panic").fails = error;
    }

    /// Lets no entry be read.
    pub(crate) fn fail_to_read(&self, error: Option<JournalError>) {
        self.inner.state.lock().expect("no panic").fails_to_read = error;
    }

    /// The commits so far.
    pub(crate) fn commits(&self) -> Vec<Vec<Change>> {
        self.inner.state.lock().expect("no panic").commits.clone()
    }
}

impl JournalStore for Watched {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        let mut state = self.inner.state.lock().expect("no panic");
        state.waiting += 1;
        let mut state = self.inner.changed.wait_while(state, |state| state.is_held).expect("no panic");
        state.waiting -= 1;
        state.commits.push(changes.to_vec());
        state.fails.clone().map_or(Ok(()), Err)?;
        self.inner.memory.commit(changes)
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        self.inner.memory.ids()
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        self.inner.state.lock().expect("no panic").fails_to_read.clone().map_or(Ok(()), Err)?;
        self.inner.memory.read(id)
    }
}

/// The key of a call that stays in the journal.
pub(crate) fn kept(error: &Status) -> Option<OperationKey> {
    Unresolved::of(error).filter(|call| call.in_journal).map(|call| call.key.clone())
}
