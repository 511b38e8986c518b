//! The disk of a journal.

use std::{
    io,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{BackendError, StorageBackend};

use super::overlay::Overlay;

/// A disk on which redb never marks its database as cleanly closed: it trusts that mark, and then reads pages without verifying
/// their checksums.
#[derive(Debug)]
pub(super) struct NeverClosed {
    inner: Box<dyn StorageBackend>,
    /// The changes, if the disk is only read.
    overlay: Option<Mutex<Overlay>>,
    /// Whether the database is being closed: nothing is written then. All commits are durable before that.
    ends: Arc<AtomicBool>,
}

impl NeverClosed {
    /// A disk that is written.
    pub(super) fn written(inner: Box<dyn StorageBackend>, ends: Arc<AtomicBool>) -> io::Result<Self> {
        Ok(Self { inner, overlay: None, ends })
    }

    /// A disk that is only read: changes stay in memory.
    pub(super) fn only_read(inner: Box<dyn StorageBackend>, ends: Arc<AtomicBool>) -> io::Result<Self> {
        let overlay = Some(Mutex::new(Overlay::of(&*inner)?));
        Ok(Self { inner, overlay, ends })
    }

    pub(super) fn is_only_read(&self) -> bool {
        self.overlay.is_some()
    }

    fn overlay(&self) -> Option<MutexGuard<'_, Overlay>> {
        self.overlay.as_ref().map(|overlay| overlay.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }
}

impl StorageBackend for NeverClosed {
    fn len(&self) -> io::Result<u64> {
        self.overlay().map_or_else(|| self.inner.len(), |overlay| Ok(overlay.len()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.overlay() {
            Some(overlay) => overlay.read(&*self.inner, offset, out),
            None => self.inner.read(offset, out),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        match self.overlay() {
            _ if self.ends() => Ok(()),
            Some(mut overlay) => {
                overlay.set_len(length);
                Ok(())
            }
            None => self.inner.set_len(length),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.overlay.is_some() || self.ends() { Ok(()) } else { self.inner.sync_data() }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.overlay() {
            _ if self.ends() => Ok(()),
            Some(mut overlay) => overlay.write(&*self.inner, offset, data),
            None => self.inner.write(offset, data),
        }
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
