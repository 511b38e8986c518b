//! The disk of a journal.

use std::{
    io,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{BackendError, StorageBackend};

/// A disk on which redb never marks its database as cleanly closed: it trusts that mark, and then reads pages without verifying
/// their checksums.
#[derive(Debug)]
pub(super) struct NeverClosed<B> {
    pub(super) inner: B,
    /// Whether the database is being closed: nothing is written then. All commits are durable before that.
    pub(super) ends: Arc<AtomicBool>,
}

impl<B> NeverClosed<B> {
    fn unless_it_ends(&self, change: impl FnOnce(&B) -> io::Result<()>) -> io::Result<()> {
        if self.ends.load(Ordering::Acquire) { Ok(()) } else { change(&self.inner) }
    }
}

impl<B: StorageBackend> StorageBackend for NeverClosed<B> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.unless_it_ends(|inner| inner.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.unless_it_ends(B::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.unless_it_ends(|inner| inner.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }
}
