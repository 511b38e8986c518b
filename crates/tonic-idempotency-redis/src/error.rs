//! Failures, and the kinds of the store's errors.

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};
use tonic_idempotency::store::{StoreError, StoreErrorKind};

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
    /// The connection ended before the answer.
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
    /// The primary has written, and fewer replicas than asked for have in time.
    #[error("{reached} replicas have received the write in time, and {wanted} were asked for")]
    TooFewReplicas { reached: i64, wanted: u32 },
}

/// What a failure says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another attempt may succeed.
    Retry,
    /// No other attempt will do better.
    Final(StoreErrorKind),
}

impl Failure {
    /// Returns whether the script may have been run.
    pub(crate) fn may_have_happened(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Silent | Self::TooFewReplicas { .. })
    }

    /// Returns whether there was no answer at all.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::NotSent(_) | Self::NotSentInTime | Self::Silent)
    }

    /// Returns whether the server does not have the script.
    pub(crate) fn is_without_script(&self) -> bool {
        matches!(self, Self::Answered(error) if error.kind() == Some(ServerErrorKind::NoScript))
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Answered(error) => answered(error),
            Self::Corrupt(_) => Verdict::Final(StoreErrorKind::Corrupt),
            // The server can be asked, and this store may not: so no call runs unprotected because of it.
            Self::NotSent(error) | Self::Lost(error) if is_misconfigured(error) => {
                Verdict::Final(StoreErrorKind::Refused)
            }
            Self::Late | Self::Lost(_) | Self::NotSent(_) | Self::NotSentInTime | Self::Silent => Verdict::Retry,
            // It has waited already.
            Self::TooFewReplicas { .. } => Verdict::Final(StoreErrorKind::Overloaded),
        }
    }

    /// Makes the error of an operation that ends with this failure.
    pub(crate) fn into_error(self, kind: StoreErrorKind, may_have_happened: bool) -> StoreError {
        let error = StoreError::new(kind, self);
        if may_have_happened { error.after_a_lost_answer() } else { error }
    }
}

/// Tells apart what passes with time from what does not.
fn answered(error: &ServerError) -> Verdict {
    match error.code() {
        // A failover, a start, a move of slots, a disconnected replica, or a long script of another.
        "ASK" | "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MOVED" | "NOREPLICAS" | "READONLY"
        | "TRYAGAIN" | "UNBLOCKED" => Verdict::Retry,
        "OOM" => Verdict::Final(StoreErrorKind::Overloaded),
        "WRONGTYPE" => Verdict::Final(StoreErrorKind::Corrupt),
        _ => Verdict::Final(StoreErrorKind::Refused),
    }
}

/// Returns the kind of the error after the last attempt, if the server has answered it: it can be asked, but does not write.
pub(crate) fn kind_after(error: &ServerError) -> StoreErrorKind {
    match error.code() {
        "BUSY" | "TRYAGAIN" => StoreErrorKind::Overloaded,
        _ => StoreErrorKind::Unreachable,
    }
}

fn is_misconfigured(error: &RedisError) -> bool {
    // For a cluster, the client tells why no node has let it in as a text.
    let codes = ["WRONGPASS", "NOAUTH", "NOPERM", "AuthenticationFailed"];
    let of_login = |text: &str| codes.iter().any(|code| text.contains(code));
    match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig | ErrorKind::EmptySentinelList => true,
        ErrorKind::RESP3NotSupported => true,
        _ => error.code().is_some_and(of_login) || error.detail().is_some_and(of_login),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: &str) -> Failure {
        match redis::parse_redis_value(format!("-{code} of a test\r\n").as_bytes()) {
            Ok(redis::Value::ServerError(error)) => Failure::Answered(error),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tries_again_what_may_pass() {
        for code in ["CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED", "BUSY"] {
            assert_eq!(server(code).verdict(), Verdict::Retry, "{code}");
        }
    }

    #[test]
    fn does_not_try_again_what_does_not_pass() {
        for (code, kind) in [
            ("OOM", StoreErrorKind::Overloaded),
            ("WRONGTYPE", StoreErrorKind::Corrupt),
            ("NOAUTH", StoreErrorKind::Refused),
            ("NOPERM", StoreErrorKind::Refused),
            ("MISCONF", StoreErrorKind::Refused),
            ("ERR", StoreErrorKind::Refused),
        ] {
            assert_eq!(server(code).verdict(), Verdict::Final(kind), "{code}");
        }
        let few = Failure::TooFewReplicas { reached: 0, wanted: 1 };
        assert_eq!(few.verdict(), Verdict::Final(StoreErrorKind::Overloaded));
        assert!(few.may_have_happened());
    }

    /// Only a store that cannot be asked lets calls run unprotected.
    #[test]
    fn a_server_that_answers_can_be_asked_unless_it_does_not_write() {
        let kind = |code| match server(code) {
            Failure::Answered(error) => kind_after(&error),
            other => panic!("{other}"),
        };
        assert_eq!(kind("BUSY"), StoreErrorKind::Overloaded);
        assert_eq!(kind("CLUSTERDOWN"), StoreErrorKind::Unreachable);
    }
}
