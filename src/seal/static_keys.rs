//! The keys of a configuration: [`StaticKeys`].

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use tonic_idempotency_wire::seal::Key;

use super::key_ring::{HashKeys, KeyError, KeyRing};
use crate::caller::Caller;

/// Keys for all callers, such as those of a configuration or of mounted files. Clones are the same keys: one is kept, to rotate them while
/// the layer runs.
#[derive(Clone)]
pub struct StaticKeys {
    /// The current one first, then those that are not current yet, then those that were. Never empty.
    keys: Arc<RwLock<Vec<Key>>>,
}

impl StaticKeys {
    /// Seals with this key.
    pub fn new(current: Key) -> Self {
        Self { keys: Arc::new(RwLock::new(vec![current])) }
    }

    /// Adds a key that opens, and does not seal: one that was current, or that will be.
    ///
    /// # Errors
    ///
    /// [`KeyRingError::Twice`] if there is a key with its id.
    pub fn add(&self, key: Key) -> Result<(), KeyRingError> {
        self.change(|keys| match position(keys, key.id()) {
            Some(_) => Err(KeyRingError::Twice),
            None => {
                keys.insert(1, key);
                Ok(())
            }
        })
    }

    /// Seals with the key with this id from now on. All servers have to know it.
    ///
    /// # Errors
    ///
    /// [`KeyRingError::Unknown`] if there is none.
    pub fn rotate_to(&self, id: impl AsRef<[u8]>) -> Result<(), KeyRingError> {
        self.change(|keys| {
            let at = position(keys, id.as_ref()).ok_or(KeyRingError::Unknown)?;
            keys[..=at].rotate_right(1);
            Ok(())
        })
    }

    /// Forgets the key with this id: its records do not open any more. That is no time to destroy it if another server still seals with it, or
    /// if the longest retention has not passed since.
    ///
    /// # Errors
    ///
    /// [`KeyRingError::Unknown`] if there is none, [`KeyRingError::Current`] if it is the current one.
    pub fn remove(&self, id: impl AsRef<[u8]>) -> Result<(), KeyRingError> {
        self.change(|keys| match position(keys, id.as_ref()) {
            None => Err(KeyRingError::Unknown),
            Some(0) => Err(KeyRingError::Current),
            Some(at) => {
                keys.remove(at);
                Ok(())
            }
        })
    }

    /// Ignores poisoning: no change is left half done.
    fn change(&self, change: impl FnOnce(&mut Vec<Key>) -> Result<(), KeyRingError>) -> Result<(), KeyRingError> {
        change(&mut self.keys.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Key>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn position(keys: &[Key], id: &[u8]) -> Option<usize> {
    keys.iter().position(|key| key.id() == id)
}

/// A key that is not known is an error and not destroyed: another server may have it.
impl KeyRing for StaticKeys {
    async fn current(&self, _caller: Option<&Caller>) -> Result<Option<Key>, KeyError> {
        Ok(self.read().first().cloned())
    }

    async fn named(&self, _caller: &Caller, id: &[u8]) -> Result<Option<Key>, KeyError> {
        let keys = self.read();
        let key = position(&keys, id).map(|at| keys[at].clone());
        key.map(Some).ok_or_else(|| format!("no key has the id \"{}\"", id.escape_ascii()).into())
    }

    async fn hash_keys(&self) -> Result<HashKeys, KeyError> {
        let keys = self.read();
        let [current, others @ ..] = keys.as_slice() else { return Err("there are no keys".into()) };
        Ok(others.iter().cloned().fold(HashKeys::new(current.clone()), HashKeys::or))
    }
}

/// Shows the ids of the keys.
impl fmt::Debug for StaticKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKeys").field("keys", &*self.read()).finish()
    }
}

/// The reason why a key is not added, chosen or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRingError {
    /// It is the current key: rotate first.
    #[error("the current key cannot be removed; rotate to another one first")]
    Current,
    /// Another key has the id.
    #[error("two keys have the same id")]
    Twice,
    /// No key has the id.
    #[error("no key has this id")]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> Key {
        Key::new(id, &[7; 32]).expect("a key")
    }

    fn ids(keys: &StaticKeys) -> String {
        keys.read().iter().map(|key| String::from_utf8_lossy(key.id())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_current_key_comes_first_and_then_the_newest() {
        let keys = StaticKeys::new(key("one"));
        assert_eq!(keys.add(key("two")), Ok(()));
        assert_eq!(keys.add(key("three")), Ok(()));
        assert_eq!(ids(&keys), "one three two");
        assert_eq!(keys.rotate_to("two"), Ok(()));
        assert_eq!(ids(&keys.clone()), "two one three");
        assert_eq!(keys.rotate_to("two"), Ok(()));
        assert_eq!(ids(&keys), "two one three");
        assert_eq!(keys.remove("one"), Ok(()));
        assert_eq!(ids(&keys), "two three");
    }

    #[test]
    fn mistakes_change_nothing() {
        let keys = StaticKeys::new(key("one"));
        assert_eq!(keys.add(key("one")), Err(KeyRingError::Twice));
        assert_eq!(keys.rotate_to("two"), Err(KeyRingError::Unknown));
        assert_eq!(keys.remove("two"), Err(KeyRingError::Unknown));
        assert_eq!(keys.remove("one"), Err(KeyRingError::Current));
        assert_eq!(ids(&keys), "one");
    }

    #[test]
    fn debug_shows_no_key() {
        let keys = StaticKeys::new(Key::new("2026-11", &[0xab; 32]).expect("a key"));
        assert_eq!(format!("{keys:?}"), r#"StaticKeys { keys: [Key { id: "2026-11", .. }] }"#);
    }
}
