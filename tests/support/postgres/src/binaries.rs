//! PostgreSQL's server binaries on this machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::error::Cause;

/// The variable with the directory of the only binaries to use.
pub(crate) const VARIABLE: &str = "IDEMPOTENCY_TEST_POSTGRES_BIN";

/// Directories with one version each, as packages create them: the path before the version, and after it.
const PER_VERSION: [(&str, &str); 4] = [
    ("/usr/lib/postgresql/", "/bin"),
    ("/usr/pgsql-", "/bin"),
    ("/opt/homebrew/opt/postgresql@", "/bin"),
    ("/usr/local/opt/postgresql@", "/bin"),
];

/// Other directories.
const FIXED: [&str; 2] = ["/usr/local/pgsql/bin", "/Applications/Postgres.app/Contents/Versions/latest/bin"];

/// A directory with PostgreSQL's `initdb` and `postgres`.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) directory: PathBuf,
}

impl Binaries {
    /// Takes those in the directory that `IDEMPOTENCY_TEST_POSTGRES_BIN` names. Without the variable, looks on `PATH`, then in
    /// the directories of packages, the newest version first.
    ///
    /// # Errors
    ///
    /// There are no binaries.
    pub(crate) fn find() -> Result<Self, Cause> {
        if let Some(directory) = env::var_os(VARIABLE) {
            return Self::at(directory.into()).map_err(|cause| format!("{VARIABLE}: {cause}").into());
        }
        let on_path: Vec<PathBuf> =
            env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
        let directories = on_path
            .into_iter()
            .chain(PER_VERSION.into_iter().flat_map(|(before, after)| newest_first(before, after)))
            .chain(FIXED.into_iter().map(PathBuf::from));
        Self::first_of(directories)
    }

    /// Takes those in `directory`.
    ///
    /// # Errors
    ///
    /// They are missing.
    pub(crate) fn at(directory: PathBuf) -> Result<Self, Cause> {
        let found = Self::first_of([directory.clone()].into_iter());
        found.map_err(|cause| format!("{}: {cause}", directory.display()).into())
    }

    fn first_of(mut directories: impl Iterator<Item = PathBuf>) -> Result<Self, Cause> {
        // A relative directory on `PATH` is an accident, and the server starts in another directory.
        let found = directories.find(|directory| {
            directory.is_absolute() && ["initdb", "postgres"].iter().all(|program| directory.join(program).is_file())
        });
        let directory = behind_links(found.ok_or("no directory has both initdb and postgres")?);
        Ok(Self { directory })
    }
}

/// The directories `{before}{version}{after}` that exist.
fn newest_first(before: &str, after: &str) -> impl Iterator<Item = PathBuf> {
    let (parent, prefix) = before.rsplit_once('/').unwrap_or_default();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut versions: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let numbers = name.strip_prefix(prefix)?.split('.').map(|number| number.parse().ok());
            Some((numbers.collect::<Option<Vec<u32>>>()?, PathBuf::from(format!("{parent}/{name}{after}"))))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, directory)| directory)
}

/// The directory that the programs are really in, if `directory` has only links to them.
fn behind_links(directory: PathBuf) -> PathBuf {
    let real = |program| fs::canonicalize(directory.join(program)).ok()?.parent().map(Path::to_owned);
    match (real("initdb"), real("postgres")) {
        (Some(initdb), Some(postgres)) if initdb == postgres => postgres,
        _ => directory,
    }
}
