//! Failures of attempts, and their classes.

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};
use tonic_idempotency::store::{StoreError, StoreErrorKind};

/// The text of a server's error when its connection limit is reached. Its code, `ERR`, is not specific.
const MANY_CLIENTS: &str = "max number of clients";

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The server has answered with an error: the script was not run.
    #[error("the server refused")]
    Answered(#[source] ServerError),
    /// The server has answered with something that no script answers.
    #[error("the server gave an answer that the store does not know: {0}")]
    Corrupt(&'static str),
    /// It came too late, and has done nothing.
    #[error("the attempt has come too late")]
    Late,
    /// The command was sent, perhaps several times if to a cluster, and the client got an error instead of an answer.
    #[error("the answer was lost")]
    Lost(#[source] RedisError),
    /// There was no connection, so nothing was sent.
    #[error("there is no connection")]
    NotSent(#[source] RedisError),
    /// There was no connection in time, so nothing was sent.
    #[error("there was no connection in time")]
    NotSentInTime,
    /// There was no answer in time.
    #[error("there was no answer in time")]
    Silent,
    /// The primary has written; in time, fewer replicas than asked for have received the write.
    #[error("{reached} replicas have received the write in time, and {wanted} were asked for")]
    TooFewReplicas { reached: i64, wanted: u32 },
    /// The primary has written; it is not known whether the replicas have received the write.
    #[error("the primary has written, and it is not known whether its replicas have")]
    Unconfirmed(#[source] Box<Self>),
    /// The server redirects: it is a node of a cluster, and the store was not made for one.
    #[error("the server is a node of a cluster; use RedisStore::cluster")]
    WrongTopology,
}

/// The class of a failure. Only [`Away`](Self::Away) may let a call run unprotected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There was no server to ask, or it is shutting down or starting up. Another attempt may find one.
    Away,
    /// The server can be asked, and another attempt may succeed.
    Busy,
    /// The answer cannot be understood.
    Corrupt,
    /// The server can be asked, and refuses writes for now. It may still answer reads.
    ReadOnly,
    /// The server, or the client, refuses, and will refuse again.
    Refused,
    /// The server is a replica: it may answer reads, and another attempt may find the primary.
    Replica,
}

impl Failure {
    /// Returns whether the script may have been run.
    pub(crate) fn may_have_happened(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Silent | Self::TooFewReplicas { .. } | Self::Unconfirmed(_))
    }

    /// Returns whether there was no answer at all.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::Lost(_) | Self::NotSent(_) => self.fault() == Fault::Away,
            Self::NotSentInTime | Self::Silent => true,
            Self::Unconfirmed(failure) => failure.is_silence(),
            _ => false,
        }
    }

    /// Returns whether the server does not have the script.
    pub(crate) fn is_without_script(&self) -> bool {
        matches!(self, Self::Answered(error) if error.kind() == Some(ServerErrorKind::NoScript))
    }

    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::Answered(error) => Fault::of_answer(error.code(), error.details()),
            Self::Corrupt(_) => Fault::Corrupt,
            Self::Late => Fault::Busy,
            Self::Lost(error) | Self::NotSent(error) => Fault::of_error(error),
            Self::NotSentInTime | Self::Silent => Fault::Away,
            // It has waited already.
            Self::TooFewReplicas { .. } => Fault::ReadOnly,
            Self::Unconfirmed(failure) => failure.fault(),
            Self::WrongTopology => Fault::Refused,
        }
    }

    /// Makes the error of an operation that ends with this failure.
    pub(crate) fn into_error(self, kind: StoreErrorKind, may_have_happened: bool) -> StoreError {
        let error = StoreError::new(kind, self);
        if may_have_happened { error.after_a_lost_answer() } else { error }
    }
}

impl Fault {
    /// Classifies an error of the server by its code.
    fn of_answer(code: &str, details: Option<&str>) -> Self {
        match code {
            // A server that starts or ends, or whose cluster or primary is away. UNBLOCKED: it was a primary until now.
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "UNBLOCKED" => Self::Away,
            // A slot that moves, or a long script of another.
            "ASK" | "BUSY" | "MOVED" | "TRYAGAIN" => Self::Busy,
            "ERR" if details.is_some_and(|text| text.contains(MANY_CLIENTS)) => Self::Busy,
            // A disk that failed, fewer replicas than `min-replicas-to-write`, and no memory.
            "MISCONF" | "NOREPLICAS" | "OOM" => Self::ReadOnly,
            "READONLY" => Self::Replica,
            "WRONGTYPE" => Self::Corrupt,
            _ => Self::Refused,
        }
    }

    /// Classifies an error of the client.
    fn of_error(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Extension | ErrorKind::Server(_) => {
                Self::of_answer(error.code().unwrap_or_default(), error.detail())
            }
            ErrorKind::ClusterConnectionNotFound | ErrorKind::Io => Self::of_no_connection(error.detail()),
            // The Sentinels know no primary that is up. They do not say whether they know the name.
            ErrorKind::MasterNameNotFoundBySentinel => Self::Away,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Self::Corrupt,
            // AuthenticationFailed, Client, EmptySentinelList, InvalidClientConfig, NoValidReplicasFoundBySentinel, RESP3NotSupported, Serialize,
            // and kinds that a later version adds: they never let a call run unprotected.
            _ => Self::Refused,
        }
    }

    /// Returns why there is no connection. Of those to a cluster, the client has made a text of the reason.
    fn of_no_connection(reason: Option<&str>) -> Self {
        const REFUSALS: [&str; 7] = [
            "AuthenticationFailed",
            "InvalidClientConfig",
            "NOAUTH",
            "NoPerm",
            "RESP3NotSupported",
            "ResponseError",
            "WRONGPASS",
        ];
        match reason {
            Some(text) if text.contains(MANY_CLIENTS) => Self::Busy,
            Some(text) if REFUSALS.iter().any(|refusal| text.contains(refusal)) => Self::Refused,
            Some(text) if text.contains("Incompatible type") => Self::Corrupt,
            _ => Self::Away,
        }
    }

    /// Returns whether another attempt may succeed.
    pub(crate) fn passes(self) -> bool {
        matches!(self, Self::Away | Self::Busy | Self::Replica)
    }

    /// Returns whether the server refuses a script that may write, and may run one that does not.
    pub(crate) fn may_read(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Replica)
    }

    /// Returns the kind of an operation's error if no other attempt did better. `lost` says whether one may have been carried out.
    pub(crate) fn kind(self, lost: bool) -> StoreErrorKind {
        match self {
            Self::Away if lost => StoreErrorKind::Interrupted,
            Self::Away => StoreErrorKind::Unreachable,
            Self::Busy | Self::ReadOnly | Self::Replica => StoreErrorKind::Overloaded,
            Self::Corrupt => StoreErrorKind::Corrupt,
            Self::Refused => StoreErrorKind::Refused,
        }
    }
}

#[cfg(test)]
mod tests;
