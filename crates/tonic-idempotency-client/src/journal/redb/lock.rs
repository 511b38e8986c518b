//! The lock of a journal, by which its file has one owner.

use std::{
    fs::{self, File, TryLockError},
    io,
    ops::Deref,
    path::{Path, PathBuf},
};

use redb::Error;

use super::file::{beside, directory, length, open_or_make};

/// The suffix of the file that is locked. It stays: if it were removed, two processes could lock two files of this name.
const LOCK: &str = ".lock";

/// The path of a journal's file, behind links. It is locked until this is dropped, and the system unlocks it if the process dies.
#[derive(Debug)]
pub(super) struct LockedPath {
    path: PathBuf,
    lock: File,
}

impl LockedPath {
    /// Locks a file, without reading it.
    pub(super) fn lock(path: &Path) -> Result<Self, Error> {
        let path = resolved(path)?;
        length(&path)?;
        let lock = open_or_make(&beside(&path, LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, lock }),
            Err(TryLockError::WouldBlock) => Err(Error::DatabaseAlreadyOpen),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl Deref for LockedPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for LockedPath {
    fn drop(&mut self) {
        // A process that is being started may have a copy of the file for a moment, which would keep the lock.
        let _ = self.lock.unlock();
    }
}

/// Returns the path behind links, whether there is a file or not.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => resolved(&directory(path).join(target)),
            Err(_) => {
                let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
                Ok(fs::canonicalize(directory(path))?.join(name))
            }
        },
        path => path,
    }
}
