//! PostgreSQL's server binaries on this machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{process::Command, time};

use crate::error::Cause;

/// How long a program may take to say its version. A program of the same name that is no PostgreSQL may never end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Directories that packages put one version each into: what comes before the version, and after.
const PER_VERSION: [(&str, &str); 4] = [
    ("/usr/lib/postgresql/", "/bin"),
    ("/usr/pgsql-", "/bin"),
    ("/opt/homebrew/opt/postgresql@", "/bin"),
    ("/usr/local/opt/postgresql@", "/bin"),
];

/// Directories that others use.
const FIXED: [&str; 2] = ["/usr/local/pgsql/bin", "/Applications/Postgres.app/Contents/Versions/latest/bin"];

/// A directory with an `initdb` and a `postgres` that are PostgreSQL's and of one version.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) directory: PathBuf,
}

impl Binaries {
    /// Looks on `PATH`, then where packages put them, the newest version first, then where `pg_config` says.
    ///
    /// # Errors
    ///
    /// There are none; the text lists what looked like it.
    pub(crate) async fn find() -> Result<Self, Cause> {
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

    async fn first_of(directories: impl Iterator<Item = PathBuf>, patience: Duration) -> Result<Self, Cause> {
        let mut rejected = String::new();
        for directory in directories {
            // A relative directory on `PATH` is somebody's accident, and the server starts elsewhere.
            if !directory.is_absolute() || !["initdb", "postgres"].iter().all(|it| directory.join(it).is_file()) {
                continue;
            }
            match check(&directory, patience).await {
                Ok(()) => return Ok(Self { directory: behind_links(directory) }),
                Err(cause) => rejected = format!("{rejected}; {} is not it: {cause}", directory.display()),
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

/// Where the programs are, if `directory` has only links to them.
fn behind_links(directory: PathBuf) -> PathBuf {
    let real = |program| fs::canonicalize(directory.join(program)).ok()?.parent().map(Path::to_owned);
    match (real("initdb"), real("postgres")) {
        (Some(initdb), Some(postgres)) if initdb == postgres => postgres,
        _ => directory,
    }
}

/// Whether both programs say that they are PostgreSQL's, and of the same version.
async fn check(directory: &Path, patience: Duration) -> Result<(), Cause> {
    let initdb = version(directory, "initdb", patience).await?;
    let postgres = version(directory, "postgres", patience).await?;
    if initdb != postgres {
        return Err(format!("initdb is of version {initdb}, postgres of {postgres}").into());
    }
    Ok(())
}

/// The version that `program` gives in PostgreSQL's form: `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
async fn version(directory: &Path, program: &str, patience: Duration) -> Result<String, Cause> {
    let said = answer(&directory.join(program), "--version", patience).await?;
    said.strip_prefix(&format!("{program} (PostgreSQL) "))
        .and_then(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .ok_or_else(|| format!("{program} --version does not answer like PostgreSQL's").into())
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

    /// A directory with an `initdb` and a `postgres` that are shell scripts; removed at the end.
    struct Pretended(PathBuf);

    impl Pretended {
        fn new(initdb: &str, postgres: &str) -> Self {
            let directory = env::temp_dir().join(format!("pretended-{}", uuid::Uuid::new_v4().simple()));
            fs::create_dir(&directory).expect("a directory");
            for (name, script) in [("initdb", initdb), ("postgres", postgres)] {
                // By another process: what this one opens for writing stays open, for a moment, in whatever it starts
                // meanwhile, and what is open for writing cannot be run.
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
    async fn accepts_what_answers_like_postgresql() {
        assert_eq!(Pretended::new(INITDB, POSTGRES).outcome(PATIENCE).await, "accepted");
    }

    #[tokio::test]
    async fn does_not_accept_another_program_of_the_name() {
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
