//! The file of `--ready-file`.

use std::{
    fs, io,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Serialize;
use uuid::Uuid;

/// The data that a program needs to call the service.
#[derive(Debug, Serialize)]
pub(crate) struct Ready<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) database_url: &'a str,
    pub(crate) tokens: Tokens,
    pub(crate) organization_id: Uuid,
    pub(crate) cluster_id: Uuid,
}

/// The bearer token of each user.
#[derive(Debug, Serialize)]
pub(crate) struct Tokens {
    pub(crate) alice: String,
    pub(crate) bob: String,
}

/// The file of `--ready-file`. It exists while the service is running.
#[derive(Debug)]
pub(crate) struct ReadyFile {
    path: PathBuf,
}

impl ReadyFile {
    /// Writes the file atomically, readable only by its owner, because it contains tokens.
    pub(crate) fn write(path: &Path, ready: &Ready<'_>) -> io::Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".{}", std::process::id()));
        let partial = PathBuf::from(partial);

        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&partial)?;
        let written = serde_json::to_writer(&mut file, ready)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(file))
            .and_then(|()| fs::rename(&partial, path));
        if let Err(error) = written {
            let _ = fs::remove_file(&partial);
            return Err(error);
        }
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the ready file");
        }
    }
}
