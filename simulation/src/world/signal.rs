//! A value that tasks wait for: [`Signal`].

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// A value that tasks wait for. They wake in the order in which they came; those of `tokio::sync::watch` wake in an order that no seed
/// decides.
#[derive(Default)]
pub struct Signal<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Signal<T> {
    /// Makes a signal with this value.
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    /// Returns the value.
    pub fn get(&self) -> T {
        *self.lock()
    }

    /// Changes the value, and wakes all who wait if `change` says that it has. Returns that.
    pub fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let changes = change(&mut self.lock());
        if changes {
            self.changed.notify_waiters();
        }
        changes
    }

    /// Returns the value once it is as wanted.
    pub async fn until(&self, is_wanted: impl Fn(T) -> bool) -> T {
        loop {
            let changed = self.changed.notified();
            let value = self.get();
            if is_wanted(value) {
                return value;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Copy + fmt::Debug> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.get()).finish()
    }
}
