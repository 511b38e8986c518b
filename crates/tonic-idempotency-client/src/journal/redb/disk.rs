//! The file of a journal as a disk.

use std::{fmt, ops::Deref, path::Path};

use redb::{Error, StorageBackend, backends::FileBackend};

use super::{file, lock::LockedPath};

/// Makes a disk of a file.
type MakeDisk = dyn Fn(FileBackend) -> Box<dyn StorageBackend> + Send + Sync;

/// The file of a journal, which is locked, and the disk that is made of it whenever it is opened.
pub(super) struct JournalDisk {
    make: Box<MakeDisk>,
    path: LockedPath,
}

impl JournalDisk {
    pub(super) fn new(
        path: LockedPath,
        make: impl Fn(FileBackend) -> Box<dyn StorageBackend> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Box::new(make), path }
    }

    /// Opens a file that exists.
    pub(super) fn open(&self) -> Result<Box<dyn StorageBackend>, Error> {
        Ok((self.make)(FileBackend::new(file::open(self)?)?))
    }
}

impl Deref for JournalDisk {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for JournalDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalDisk").field("path", &self.path).finish_non_exhaustive()
    }
}
