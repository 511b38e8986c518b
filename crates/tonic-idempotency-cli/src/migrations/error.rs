//! Why nothing was written, or not everything.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use tonic_idempotency::store::InvalidIdentifier;

use super::format::Format;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Files, and the first line of each that differs.
    #[error(
        "nothing was written, because these files are not the same as the migrations to write:{}\n\
         A runner refuses a migration that has changed since it was run. Give the options that the files were written with \
         (--schema, --table, --resource-type). If no database has run the files, remove them, and run the command again.",
        list(.files)
    )]
    Changed { files: Vec<(PathBuf, usize)> },
    #[error(
        "nothing was written: diesel runs {version} before the newest migration, which has fewer digits. Set --first-version"
    )]
    Digits { version: String },
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "nothing was written: the folder has migrations for {other} already, such as {}; give --format {other}, or another folder",
        .path.display()
    )]
    OtherFormat { other: Format, path: PathBuf },
    #[error(transparent)]
    Schema(#[from] InvalidIdentifier),
    #[error("nothing was written: the folder has a migration with the version {version}. Set another --first-version")]
    Taken { version: String },
    #[error(
        "nothing was written: {format} takes versions up to {most}, and {version} is beyond that. Set another --first-version"
    )]
    TooLarge { format: Format, most: u64, version: String },
    #[error("nothing was written: two of the options give a migration of the name {name}")]
    Twice { name: String },
}

impl Error {
    /// Names the file of an error.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

fn list(files: &[(PathBuf, usize)]) -> String {
    let mut list = String::new();
    for (path, line) in files {
        // Writing to a String never fails.
        let _ = write!(list, "\n  {} (line {line})", path.display());
    }
    list
}
