//! Requests that wait for the end of a call, by its owner and key.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{caller::OwnerId, key::KeyId};

type Id = (OwnerId, KeyId);

/// The watchers of all keys. Only keys with watchers have an entry.
#[derive(Default)]
pub(in crate::engine) struct Watchers {
    by_key: Mutex<HashMap<Id, watch::Sender<()>>>,
}

impl Watchers {
    /// Watches a key until the result is dropped.
    pub(in crate::engine) fn watch(self: &Arc<Self>, owner: OwnerId, key: KeyId) -> Watcher {
        let id = (owner, key);
        let receiver = match self.lock().entry(id) {
            Entry::Occupied(entry) => entry.get().subscribe(),
            Entry::Vacant(entry) => {
                let (sender, receiver) = watch::channel(());
                entry.insert(sender);
                receiver
            }
        };
        Watcher { watchers: Arc::clone(self), id, receiver: Some(receiver) }
    }

    /// Tells the watchers of a key that a call with it has ended in this process.
    pub(in crate::engine) fn tell(&self, owner: OwnerId, key: KeyId) {
        let by_key = self.lock();
        if !by_key.is_empty()
            && let Some(sender) = by_key.get(&(owner, key))
        {
            sender.send_replace(());
        }
    }

    /// Ignores poisoning: no operation leaves the map half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, watch::Sender<()>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of a call with a key in this process.
pub(crate) struct Watcher {
    watchers: Arc<Watchers>,
    id: Id,
    /// `None` while this is dropped.
    receiver: Option<watch::Receiver<()>>,
}

impl Watcher {
    /// Forgets the calls that have ended so far: call it before the store is asked.
    pub(crate) fn forget(&mut self) {
        self.receiver.iter_mut().for_each(watch::Receiver::mark_unchanged);
    }

    /// Waits until a call ends that has not been forgotten.
    pub(crate) async fn ended(&mut self) {
        let changed = match &mut self.receiver {
            Some(receiver) => receiver.changed().await.ok(),
            None => None,
        };
        if changed.is_none() {
            std::future::pending().await
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut by_key = self.watchers.lock();
        // Within the lock: of two that end at once, each would leave the entry to the other.
        self.receiver = None;
        if by_key.get(&self.id).is_some_and(|sender| sender.receiver_count() == 0) {
            by_key.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn are_told_of_the_calls_with_their_key_that_end_after_they_look() {
        let watchers = Arc::new(Watchers::default());
        let (owner, [key, other]) = (OwnerId::new(Uuid::nil()), [1, 2].map(|id| KeyId::new(Uuid::from_u128(id))));
        let [mut one, mut two] = [(); 2].map(|()| watchers.watch(owner, key));
        watchers.tell(owner, other);
        watchers.tell(OwnerId::new(Uuid::max()), key);
        assert!(one.ended().now_or_never().is_none());
        watchers.tell(owner, key);
        assert!(one.ended().now_or_never().is_some() && two.ended().now_or_never().is_some());
        assert!(one.ended().now_or_never().is_none(), "only once");
        watchers.tell(owner, key);
        one.forget();
        assert!(one.ended().now_or_never().is_none());
    }

    #[test]
    fn are_remembered_as_long_as_there_are_any() {
        let watchers = Arc::new(Watchers::default());
        let (owner, key) = (OwnerId::new(Uuid::nil()), KeyId::new(Uuid::nil()));
        let [one, two] = [(); 2].map(|()| watchers.watch(owner, key));
        drop(one);
        assert_eq!(watchers.lock().len(), 1);
        drop(two);
        assert!(watchers.lock().is_empty());
        watchers.tell(owner, key);
    }
}
