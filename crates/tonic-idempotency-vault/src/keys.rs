//! The keys of a Vault: [`VaultKeys`].

use std::{fmt, sync::Arc};

use tonic_idempotency::{
    Caller, Scope,
    seal::{HashKeys, Key, KeyError, KeyRing},
};

use crate::{kept::Kept, names::Names, no_key::NoKey, setup_error::VaultSetupError, transit::Transit};

/// How many scopes a server keeps the data key of.
const SCOPES: usize = 1_000;

/// How many data keys a server keeps that it has opened: each server makes one for a scope every five minutes.
const OPENED: usize = 10_000;

/// Keys from the transit engine of a HashiCorp Vault or an OpenBao: for each scope another. Clones are the same keys: one is kept, to
/// [renew the token](Self::set_token) while the layer runs.
#[derive(Clone)]
pub struct VaultKeys {
    inner: Arc<Inner>,
}

struct Inner {
    names: Names,
    transit: Arc<Transit>,
    /// The data key for new records, by the name of the transit key.
    current: Kept<String, Key>,
    /// Data keys of records, by the name of the transit key and their ids.
    opened: Kept<(String, String), Key>,
    hashes: Kept<(), HashKeys>,
}

impl VaultKeys {
    pub(crate) fn new(names: Names, transit: Transit) -> Self {
        let (current, opened, hashes) = (Kept::new(SCOPES), Kept::new(OPENED), Kept::new(1));
        Self { inner: Arc::new(Inner { names, transit: Arc::new(transit), current, opened, hashes }) }
    }

    /// Uses this token from now on: the one before expires. Requests that are under way end with theirs. Files of certificates are read again.
    ///
    /// # Errors
    ///
    /// [`VaultSetupError::Token`] or [`VaultSetupError::Client`]; the token stays the one before.
    pub fn set_token(&self, token: &str) -> Result<(), VaultSetupError> {
        self.inner.transit.set_token(token)
    }

    /// Returns the name of the transit key of this scope, or of the callers in none, whether or not it exists. If an operator deletes it, the
    /// records of the scope are [erased](crate#erasure).
    pub fn key_name(&self, scope: Option<&Scope>) -> String {
        self.inner.names.of_scope(scope)
    }
}

/// Recovery knows no caller, and so no scope: no response is stored.
impl KeyRing for VaultKeys {
    async fn current(&self, caller: Option<&Caller>) -> Result<Option<Key>, KeyError> {
        let Some(caller) = caller else { return Ok(None) };
        let name = self.key_name(caller.scope.as_ref());
        let transit = Arc::clone(&self.inner.transit);
        let ask = {
            let name = name.clone();
            async move { transit.data_key(&name).await }
        };
        Ok(Some(self.inner.current.get(name, ask).await?))
    }

    async fn named(&self, caller: &Caller, id: &[u8]) -> Result<Option<Key>, KeyError> {
        let name = self.key_name(caller.scope.as_ref());
        let current = self.inner.current.peek(&name).filter(|key| key.id() == id);
        if current.is_some() {
            return Ok(current);
        }
        let id = String::from_utf8_lossy(id).into_owned();
        let transit = Arc::clone(&self.inner.transit);
        let ask = {
            let (name, id) = (name.clone(), id.clone());
            async move { transit.open(&name, &id).await }
        };
        match self.inner.opened.get((name, id), ask).await {
            Ok(key) => Ok(Some(key)),
            Err(NoKey::Destroyed | NoKey::Missing) => Ok(None),
            Err(away) => Err(away.into()),
        }
    }

    async fn hash_keys(&self) -> Result<HashKeys, KeyError> {
        let (transit, name) = (Arc::clone(&self.inner.transit), self.inner.names.of_hashes());
        Ok(self.inner.hashes.get((), async move { hash_keys(&transit, &name).await }).await?)
    }
}

/// The version before the latest is current, and the one before that is known: within five minutes of a rotation, servers differ in what they
/// take for the latest, and one that uses a version must not be the only one to know it.
async fn hash_keys(transit: &Transit, name: &str) -> Result<HashKeys, NoKey> {
    let (version, latest) = transit.hash_key(name, None).await?;
    let mut keys = Vec::new();
    for older in (1..version).rev().take(2) {
        match transit.hash_key(name, Some(older)).await {
            Ok((_, key)) => keys.push(key),
            // Forbidden by `min_encryption_version`.
            Err(NoKey::Destroyed) => break,
            Err(error) => return Err(error),
        }
    }
    keys.insert(keys.len().min(1), latest);
    let mut keys = keys.into_iter();
    let current = keys.next().ok_or_else(|| NoKey::away("there are no keys"))?;
    Ok(keys.fold(HashKeys::new(current), HashKeys::or))
}

/// Shows no token.
impl fmt::Debug for VaultKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { names, transit, .. } = &*self.inner;
        f.debug_struct("VaultKeys")
            .field("mount", &transit.mount())
            .field("prefix", &names.prefix())
            .finish_non_exhaustive()
    }
}
