//! PostgreSQL's server binaries on this machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{process::Command, time};

use crate::error::Cause;

/// The time in which a program must print its version. An unrelated program with the same name may never end.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// A directory with PostgreSQL's `initdb` and `postgres`, both of the same version.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) directory: PathBuf,
    pub(crate) version: String,
}

impl Binaries {
    /// Takes those in the directory that `IDEMPOTENCY_TEST_POSTGRES_BIN` names. Without the variable, looks on `PATH`, then in
    /// the directories of packages, the newest version first, then in the directory that `pg_config` reports.
    ///
    /// # Errors
    ///
    /// There are no binaries; the text lists the rejected candidates.
    pub(crate) async fn find() -> Result<Self, Cause> {
        if let Some(directory) = env::var_os(VARIABLE) {
            let found = Self::at(directory.into()).await;
            return found.map_err(|cause| format!("{VARIABLE}: {cause}").into());
        }
        let on_path: Vec<PathBuf> =
            env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
        let told = answer(Path::new("pg_config"), "--bindir", PATIENCE).await.ok().map(PathBuf::from);
        let directories = on_path
            .into_iter()
            .chain(PER_VERSION.into_iter().flat_map(|(before, after)| newest_first(before, after)))
            .chain(FIXED.into_iter().map(PathBuf::from))
            .chain(told);
        Self::first_of(directories, PATIENCE).await
    }

    /// Takes those in `directory`.
    ///
    /// # Errors
    ///
    /// They are missing, or not suitable.
    pub(crate) async fn at(directory: PathBuf) -> Result<Self, Cause> {
        let found = Self::first_of([directory.clone()].into_iter(), PATIENCE).await;
        found.map_err(|cause| format!("{}: {cause}", directory.display()).into())
    }

    async fn first_of(directories: impl Iterator<Item = PathBuf>, patience: Duration) -> Result<Self, Cause> {
        let mut rejected = String::new();
        for directory in directories {
            // A relative directory on `PATH` is an accident, and the server starts in another directory.
            if !directory.is_absolute() || !["initdb", "postgres"].iter().all(|it| directory.join(it).is_file()) {
                continue;
            }
            match check(&directory, patience).await {
                Ok(version) => return Ok(Self { directory: behind_links(directory), version }),
                Err(cause) => rejected = format!("{rejected}; {} is not suitable: {cause}", directory.display()),
            }
        }
        Err(format!("no directory has both initdb and postgres{rejected}").into())
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

/// Checks that both programs are PostgreSQL's, and of the same version, and returns that.
async fn check(directory: &Path, patience: Duration) -> Result<String, Cause> {
    let initdb = version(directory, "initdb", patience).await?;
    let postgres = version(directory, "postgres", patience).await?;
    if initdb != postgres {
        return Err(format!("initdb is of version {initdb}, postgres of {postgres}").into());
    }
    Ok(postgres)
}

/// The version that `program` prints.
async fn version(directory: &Path, program: &str, patience: Duration) -> Result<String, Cause> {
    let said = answer(&directory.join(program), "--version", patience).await?;
    version_in(program, &said).ok_or_else(|| format!("{program} --version does not answer like PostgreSQL's").into())
}

/// The version in what `program` prints, in PostgreSQL's form: `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
pub(crate) fn version_in(program: &str, said: &str) -> Option<String> {
    let rest = said.strip_prefix(&format!("{program} (PostgreSQL) "))?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// The first line that a program prints.
async fn answer(program: &Path, argument: &str, patience: Duration) -> Result<String, Cause> {
    let running =
        Command::new(program).arg(argument).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output();
    let output = time::timeout(patience, running)
        .await
        .map_err(|_| format!("{} {argument} does not end", program.display()))??;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with an `initdb` and a `postgres` that are shell scripts; removed when dropped.
    struct Pretended(PathBuf);

    impl Pretended {
        fn new(initdb: &str, postgres: &str) -> Self {
            let directory = env::temp_dir().join(format!("pretended-{}", uuid::Uuid::new_v4().simple()));
            fs::create_dir(&directory).expect("a directory");
            for (name, script) in [("initdb", initdb), ("postgres", postgres)] {
                // Another process writes the file: a file that this process has open for writing may stay open for a
                // moment in a child that starts meanwhile, and then it cannot be executed.
                let status = std::process::Command::new("sh")
                    .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#, "sh"])
                    .args([directory.join(name).as_os_str(), script.as_ref()])
                    .status();
                assert!(status.expect("there is sh").success());
            }
            Self(directory)
        }

        async fn outcome(&self, patience: Duration) -> String {
            match Binaries::first_of([self.0.clone()].into_iter(), patience).await {
                Ok(_) => "accepted".to_owned(),
                Err(cause) => cause.to_string(),
            }
        }
    }

    impl Drop for Pretended {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const INITDB: &str = "echo 'initdb (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'";
    const POSTGRES: &str = "echo 'postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'";

    #[tokio::test]
    async fn accepts_programs_that_answer_like_postgresql() {
        assert_eq!(Pretended::new(INITDB, POSTGRES).outcome(PATIENCE).await, "accepted");
    }

    #[tokio::test]
    async fn does_not_accept_other_programs_of_the_same_name() {
        let other = Pretended::new(INITDB, "echo 'postgres 3.1, a mail sorter'").outcome(PATIENCE).await;
        assert!(other.contains("does not answer like PostgreSQL's"), "{other}");
        let versions = Pretended::new("echo 'initdb (PostgreSQL) 14.1'", POSTGRES).outcome(PATIENCE).await;
        assert!(versions.contains("version 14.1"), "{versions}");
    }

    #[tokio::test]
    async fn does_not_wait_for_a_program_that_never_ends() {
        let stuck = Pretended::new("exec sleep 60", POSTGRES).outcome(Duration::from_millis(100)).await;
        assert!(stuck.contains("does not end"), "{stuck}");
    }
}
