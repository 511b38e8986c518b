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

/// The bearer token of each user, in each organisation.
#[derive(Debug, Serialize)]
pub(crate) struct Tokens {
    pub(crate) alice: String,
    pub(crate) bob: String,
    /// Of `auth0|x`, in the organisation of `alice`.
    pub(crate) x_here: String,
    /// Of `auth0|x`, in the other organisation.
    pub(crate) x_there: String,
}

#[cfg(test)]
impl Tokens {
    pub(crate) fn of_tests() -> Self {
        let [alice, bob, x_here, x_there] = ["alice", "bob", "x-here", "x-there"].map(|user| format!("of-{user}"));
        Self { alice, bob, x_here, x_there }
    }
}

/// The file of `--ready-file`. It exists while the service is running.
#[derive(Debug)]
pub(crate) struct ReadyFile {
    path: PathBuf,
}

impl ReadyFile {
    /// Writes the file atomically, readable only by its owner, because it contains tokens. Replaces nothing, and follows no
    /// symbolic link: in a directory like `/tmp`, others can put something in its place before.
    pub(crate) fn write(path: &Path, ready: &Ready<'_>) -> io::Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".{}", std::process::id()));
        let partial = PathBuf::from(partial);

        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&partial)?;
        let written = serde_json::to_writer(&mut file, ready)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(file))
            .and_then(|()| fs::hard_link(&partial, path));
        let _ = fs::remove_file(&partial);
        written.map(|()| Self { path: path.to_owned() })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A new directory, removed when this is dropped.
    struct Directory(PathBuf);

    impl Directory {
        fn new() -> Self {
            let path = std::env::temp_dir().join(Uuid::new_v4().to_string());
            fs::create_dir(&path).expect("a directory");
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("the directory");
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(path: &Path) -> io::Result<ReadyFile> {
        let tokens = Tokens::of_tests();
        let address = "127.0.0.1:1".parse().expect("an address");
        let ready =
            Ready { address, database_url: "", tokens, organization_id: Uuid::nil(), cluster_id: Uuid::from_u128(7) };
        ReadyFile::write(path, &ready)
    }

    #[test]
    fn is_there_until_it_is_dropped() {
        let directory = Directory::new();
        let path = directory.0.join("ready.json");
        let file = write(&path).expect("it is written");
        assert_eq!(directory.names(), ["ready.json"]);
        let written: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
        assert_eq!(written["tokens"]["alice"], "of-alice");
        drop(file);
        assert!(directory.names().is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn replaces_no_file_and_follows_no_link() {
        for planted in ["ready.json".to_owned(), format!("ready.json.{}", std::process::id())] {
            let directory = Directory::new();
            let (path, victim, planted) =
                (directory.0.join("ready.json"), directory.0.join("victim"), directory.0.join(planted));
            fs::write(&victim, "precious").expect("a file");
            std::os::unix::fs::symlink(&victim, &planted).expect("a link");
            assert_eq!(write(&path).expect_err("a link is there").kind(), io::ErrorKind::AlreadyExists);
            fs::remove_file(&planted).expect("the link is still there");
            fs::write(&planted, "precious").expect("a file");
            assert_eq!(write(&path).expect_err("a file is there").kind(), io::ErrorKind::AlreadyExists);
            for file in [&victim, &planted] {
                assert_eq!(fs::read_to_string(file).expect("the file is still there"), "precious");
            }
            assert_eq!(directory.names().len(), 2, "nothing else is left");
        }
    }
}
