//! The check of the servers' settings.

use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use redis::{Pipeline, Value, cmd};
use tonic_idempotency::store::{StoreError, StoreErrorKind};

use crate::{command_runner::CommandRunner, connection::Primary, durability::Durability, error::Failure};

/// The oldest version with flags of scripts, `PEXPIRETIME`, and `PEXPIREAT … GT`.
const OLDEST: u32 = 7;

/// The servers are not set up as the store needs them, or could not be asked.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A server could not be asked.
    #[error("the server could not be asked")]
    Store(#[from] StoreError),
    /// All that is wrong.
    #[error("the server is not set up for this store: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Setup(Vec<SetupProblem>),
}

tonic_idempotency::store::debug_tells!(VerifyError);

/// Something that is wrong with the settings of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupProblem {
    /// It deletes records to make room, completed ones and reservations.
    #[error("{server}: maxmemory-policy is {policy}, so that it deletes records when it is full; set it to noeviction")]
    Evicts {
        /// The server.
        server: String,
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// It is a part of a cluster, or is not, against what the store was made for.
    #[error("{server}: {}", advice(.in_cluster))]
    OtherTopology {
        /// The server.
        server: String,
        /// Whether it is a node of a cluster.
        in_cluster: bool,
    },
    /// It has fewer replicas than each write has to reach: no call could run.
    #[error("{server}: it has {connected} replicas, and Durability waits for {wanted}")]
    TooFewReplicas {
        /// The server.
        server: String,
        /// The number of its connected replicas.
        connected: u32,
        /// The number of replicas to wait for.
        wanted: u32,
    },
    /// It is too old.
    #[error("{server}: it is Redis {version}; the scripts need 7.0 or later, or Valkey")]
    TooOld {
        /// The server.
        server: String,
        /// Its version.
        version: String,
    },
}

fn advice(in_cluster: &bool) -> &'static str {
    match in_cluster {
        true => "it is a node of a cluster; use RedisStore::cluster",
        false => "it is not a node of a cluster; use RedisStore::single or RedisStore::sentinel",
    }
}

/// Checks every primary for a store with this durability, made for a cluster or not.
pub(crate) async fn verify(
    runner: &CommandRunner,
    durability: Durability,
    in_cluster: bool,
) -> Result<(), VerifyError> {
    let mut problems = Vec::new();
    for primary in runner.primaries().await? {
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(cmd("INFO"));
        let text = text(runner.read(&primary, &commands).await?)?;
        problems.extend(problems_of(&primary, &Info::parse(&text), durability, in_cluster));
    }
    if problems.is_empty() { Ok(()) } else { Err(VerifyError::Setup(problems)) }
}

/// Refuses servers that evict, unless it `is_checked`: by [`verify`], or here before. Asks each primary for a part of the time of one
/// attempt; a primary that is away is left to the claims that need it.
///
/// # Errors
///
/// A primary evicts, or does not let itself be asked.
pub(crate) async fn refuse_eviction(runner: &CommandRunner, is_checked: &AtomicBool) -> Result<(), StoreError> {
    if is_checked.load(Ordering::Relaxed) {
        return Ok(());
    }
    let half = runner.part() / 2;
    let primaries = asked(runner.try_to_find_primaries(half).await)?.unwrap_or_default();
    let time = half / u32::try_from(primaries.len()).unwrap_or(u32::MAX).max(1);
    let (mut is_answered, mut problems) = (false, Vec::new());
    let mut commands = Pipeline::with_capacity(1);
    commands.add_command(cmd("INFO").arg("memory").clone());
    for primary in primaries {
        let Some(answers) = asked(runner.try_to_read(&primary, &commands, time).await)? else { continue };
        let text = text(answers)?;
        problems.extend(eviction(&primary, &Info::parse(&text)));
        is_answered = true;
    }
    if !problems.is_empty() {
        return Err(StoreError::new(StoreErrorKind::Refused, VerifyError::Setup(problems)));
    }
    is_checked.fetch_or(is_answered, Ordering::Relaxed);
    Ok(())
}

/// Returns an answer; `None` if there may be one later.
fn asked<T>(outcome: Result<T, Failure>) -> Result<Option<T>, StoreError> {
    match outcome {
        Ok(answer) => Ok(Some(answer)),
        Err(failure) if failure.fault().passes() => Ok(None),
        Err(failure) => {
            let kind = failure.fault().kind(false);
            Err(failure.into_error(kind, false))
        }
    }
}

/// Returns the answer of `INFO`.
fn text(answers: Vec<Value>) -> Result<String, StoreError> {
    let text = answers.into_iter().next().and_then(|answer| redis::from_redis_value(answer).ok());
    text.ok_or_else(|| Failure::Corrupt("INFO").into_error(StoreErrorKind::Corrupt, false))
}

fn eviction(primary: &Primary, info: &Info<'_>) -> Option<SetupProblem> {
    let policy = info.get("maxmemory_policy");
    (policy != "noeviction").then(|| SetupProblem::Evicts { server: primary.to_string(), policy: policy.to_owned() })
}

fn problems_of(primary: &Primary, info: &Info<'_>, durability: Durability, is_for_cluster: bool) -> Vec<SetupProblem> {
    let server = || primary.to_string();
    let mut problems = Vec::new();
    let version = info.get("redis_version");
    if version.split('.').next().and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < OLDEST) {
        problems.push(SetupProblem::TooOld { server: server(), version: version.to_owned() });
    }
    problems.extend(eviction(primary, info));
    let in_cluster = info.get("cluster_enabled") == "1";
    if in_cluster != is_for_cluster {
        problems.push(SetupProblem::OtherTopology { server: server(), in_cluster });
    }
    let (connected, wanted) = (info.get("connected_slaves").parse().unwrap_or(0), durability.waits_for());
    if connected < wanted {
        problems.push(SetupProblem::TooFewReplicas { server: server(), connected, wanted });
    }
    problems
}

/// The answer of `INFO`: lines of names and values.
struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    fn parse(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    /// Returns a value; an empty one if the server does not say.
    fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }
}

impl fmt::Debug for Info<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info").field("lines", &self.0.len()).finish()
    }
}
