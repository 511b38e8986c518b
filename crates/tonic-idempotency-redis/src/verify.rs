//! The check of the servers' settings.

use std::{collections::HashMap, fmt};

use redis::{Pipeline, cmd};
use tonic_idempotency::store::{StoreError, StoreErrorKind};

use crate::{connection::Primary, error::Failure, store::RedisStore};

/// The oldest version with flags of scripts, `PEXPIRETIME`, and `PEXPIREAT … GT`.
const OLDEST: u32 = 7;

/// The servers are not set up as the store needs them, or could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A server could not be asked.
    #[error("the server could not be asked")]
    Store(#[from] StoreError),
    /// All that is wrong.
    #[error("the server is not set up for this store: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Setup(Vec<SetupProblem>),
}

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

pub(crate) async fn verify(store: &RedisStore) -> Result<(), VerifyError> {
    let mut problems = Vec::new();
    for primary in store.attempts.primaries().await? {
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(cmd("INFO"));
        let answer = store.attempts.read(&primary, &commands).await?.into_iter().next();
        let text: Option<String> = answer.and_then(|answer| redis::from_redis_value(answer).ok());
        let corrupt = || Failure::Corrupt("INFO").into_error(StoreErrorKind::Corrupt, false);
        problems.extend(problems_of(store, &primary, &Info::parse(&text.ok_or_else(corrupt)?)));
    }
    if problems.is_empty() { Ok(()) } else { Err(VerifyError::Setup(problems)) }
}

fn problems_of(store: &RedisStore, primary: &Primary, info: &Info<'_>) -> Vec<SetupProblem> {
    let server = || primary.to_string();
    let mut problems = Vec::new();
    let version = info.get("redis_version");
    if version.split('.').next().and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < OLDEST) {
        problems.push(SetupProblem::TooOld { server: server(), version: version.to_owned() });
    }
    let policy = info.get("maxmemory_policy");
    if policy != "noeviction" {
        problems.push(SetupProblem::Evicts { server: server(), policy: policy.to_owned() });
    }
    let in_cluster = info.get("cluster_enabled") == "1";
    if in_cluster != store.in_cluster {
        problems.push(SetupProblem::OtherTopology { server: server(), in_cluster });
    }
    let (connected, wanted) = (info.get("connected_slaves").parse().unwrap_or(0), store.durability.waits_for());
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
