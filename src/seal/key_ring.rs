//! The keys that seal records: [`KeyRing`].

use std::error::Error;

use futures_util::future::BoxFuture;
use tonic_idempotency_wire::seal::Key;

use crate::caller::Caller;

/// The reason why keys cannot be asked for at the moment, in words.
pub type KeyError = Box<dyn Error + Send + Sync>;

/// The keys that seal records, and open them.
///
/// [`StaticKeys`](super::StaticKeys) has those of a configuration, and the crate `tonic-idempotency-vault` those of a Vault. A ring of your own gets
/// them from a service, keeps them for a while, and asks once for calls that come at the same time. The layer waits for at most 5 seconds, and takes a panic for an error.
///
/// # Cancel safety
///
/// A future may be dropped at any time.
pub trait KeyRing: Send + Sync + 'static {
    /// Returns the key for a new record of this caller; `None` if its response is not to be stored. A call that the
    /// [recovery](crate::maintenance::Recovery) reconciles has no caller.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the keys cannot be asked for. The call is refused, before it claims its key.
    fn current(&self, caller: Option<&Caller>) -> impl Future<Output = Result<Option<Key>, KeyError>> + Send;

    /// Returns the key with this id, which a record of this caller names; `None` if it is destroyed for good, so that the record can never be
    /// read.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the keys cannot be asked for, or if another server may have this one. The call is refused, and may be retried.
    fn named(&self, caller: &Caller, id: &[u8]) -> impl Future<Output = Result<Option<Key>, KeyError>> + Send;

    /// Returns the keys for the hashes of requests. They are the same for all callers: a record whose own key is destroyed still has to know its
    /// request. Asked before each claim, and again if the record has another hash.
    ///
    /// # Errors
    ///
    /// As of [`current`](Self::current).
    fn hash_keys(&self) -> impl Future<Output = Result<HashKeys, KeyError>> + Send;
}

/// The keys for the hashes of requests: the current one, and others that records may have been made with.
#[derive(Clone, Debug)]
pub struct HashKeys {
    current: Key,
    others: Vec<Key>,
}

impl HashKeys {
    /// New records are made with this key.
    pub fn new(current: Key) -> Self {
        Self { current, others: Vec::new() }
    }

    /// Adds a key that was current until now, or that is already current on other servers. The store is asked once more for each of
    /// them, about a call whose request is not the recorded one by the keys before.
    pub fn or(mut self, other: Key) -> Self {
        self.others.push(other);
        self
    }

    pub(super) fn current(&self) -> &Key {
        &self.current
    }

    pub(super) fn others(&self) -> &[Key] {
        &self.others
    }
}

/// A [`KeyRing`] without its type.
pub(super) trait DynKeyRing: Send + Sync {
    fn current<'a>(&'a self, caller: Option<&'a Caller>) -> BoxFuture<'a, Result<Option<Key>, KeyError>>;

    fn named<'a>(&'a self, caller: &'a Caller, id: &'a [u8]) -> BoxFuture<'a, Result<Option<Key>, KeyError>>;

    fn hash_keys(&self) -> BoxFuture<'_, Result<HashKeys, KeyError>>;
}

impl<R: KeyRing> DynKeyRing for R {
    fn current<'a>(&'a self, caller: Option<&'a Caller>) -> BoxFuture<'a, Result<Option<Key>, KeyError>> {
        Box::pin(KeyRing::current(self, caller))
    }

    fn named<'a>(&'a self, caller: &'a Caller, id: &'a [u8]) -> BoxFuture<'a, Result<Option<Key>, KeyError>> {
        Box::pin(KeyRing::named(self, caller, id))
    }

    fn hash_keys(&self) -> BoxFuture<'_, Result<HashKeys, KeyError>> {
        Box::pin(KeyRing::hash_keys(self))
    }
}
