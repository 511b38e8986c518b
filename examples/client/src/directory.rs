//! A directory for files of this process.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
};

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// Makes the directory of this process with this purpose.
    pub(crate) fn new(purpose: &str) -> io::Result<Self> {
        let path = env::temp_dir().join(format!("idempotency-{purpose}-{}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
