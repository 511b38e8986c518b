//! The errors of drivers.

use std::{borrow::Cow, error::Error, fmt, io};

type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a statement.
///
/// It displays the server's message and the SQLSTATE, and neither shows nor returns more of the server's answer: the details may
/// quote a row.
pub struct DriverError {
    answer: Option<ServerError>,
    is_lost: bool,
    source: BoxError,
}

/// An error that the server has answered with.
struct ServerError {
    /// `None` if the driver does not know it.
    code: Option<Cow<'static, str>>,
    message: String,
    is_fatal: bool,
    is_stale_plan: bool,
}

impl DriverError {
    /// An error that the server has answered with: its SQLSTATE and message, whether the server ends the connection after it
    /// (a severity other than `ERROR`), and the driver's error.
    pub fn answered(
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        is_fatal: bool,
        error: impl Into<BoxError>,
    ) -> Self {
        let answer = ServerError { code: Some(code.into()), message: message.into(), is_fatal, is_stale_plan: false };
        Self { answer: Some(answer), is_lost: false, source: error.into() }
    }

    /// An error that the server has answered with because a prepared statement would have other columns now: SQLSTATE `0A000`, as many others
    /// have, from the routine `RevalidateCachedQuery`.
    pub fn stale_plan(message: impl Into<String>, error: impl Into<BoxError>) -> Self {
        let (code, message) = (Some("0A000".into()), message.into());
        let answer = ServerError { code, message, is_fatal: false, is_stale_plan: true };
        Self { answer: Some(answer), is_lost: false, source: error.into() }
    }

    /// An error that the server has answered with, and whose SQLSTATE the driver cannot tell. As it may stand for a lost answer,
    /// the store looks whether the statement was carried out, and does not use the connection again.
    pub fn unrecognised(message: impl Into<String>, error: impl Into<BoxError>) -> Self {
        let answer = ServerError { code: None, message: message.into(), is_fatal: false, is_stale_plan: false };
        Self { answer: Some(answer), is_lost: false, source: error.into() }
    }

    /// The connection was lost, so that there is no answer. Not for an error that the client makes itself: it would count as a server that
    /// cannot be asked, without which calls may run unprotected.
    pub fn lost(error: impl Into<BoxError>) -> Self {
        Self { answer: None, is_lost: true, source: error.into() }
    }

    /// The statement has no answer for another reason, which is the client's own: a parameter that cannot be sent, an answer that it does
    /// not understand. It may have been carried out.
    pub fn unanswered(error: impl Into<BoxError>) -> Self {
        Self { answer: None, is_lost: false, source: error.into() }
    }

    /// Returns the SQLSTATE of the server's answer; `None` if there was none, or the driver cannot tell.
    pub fn code(&self) -> Option<&str> {
        self.answer.as_ref()?.code.as_deref()
    }

    /// Returns whether the connection was lost.
    pub fn is_connection_lost(&self) -> bool {
        self.answer.as_ref().map_or(self.is_lost, |answer| answer.is_fatal)
    }

    /// Returns whether the server's answer leaves open whether the server can be asked: its code is that of a server that goes, and of a pooler
    /// that has none, but also that of a statement for which another server is away, such as a worker of Citus, or the server that a trigger
    /// asks. Poolers differ in their severities, and in whether they end the connection. So the store asks the same connection once more.
    pub fn leaves_doubt(&self) -> bool {
        self.code().is_some_and(may_go)
    }

    /// Returns whether the statement lost against another transaction (a serialization failure or a deadlock): the same
    /// statement may succeed later.
    pub fn is_conflict(&self) -> bool {
        self.code().is_some_and(is_conflict)
    }

    /// Returns whether the whole transaction may succeed if it is run again: a statement lost against another transaction, or its plan was
    /// [stale](Self::stale_plan).
    pub fn is_worth_another_run(&self) -> bool {
        self.is_conflict() || self.is_stale_plan()
    }

    /// Returns whether a prepared statement failed only because it is stale: it would have other columns now, or the server has
    /// forgotten it. It was not carried out.
    pub fn is_stale(&self) -> bool {
        self.is_stale_plan() || self.code() == Some("26000")
    }

    fn is_stale_plan(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.is_stale_plan)
    }

    /// Returns the driver's error, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }
}

/// Returns whether this SQLSTATE may be that of a server that is shutting down or starting up, or of a pooler that has no server.
pub(in crate::store::sql) fn may_go(code: &str) -> bool {
    class(code) == "08" || matches!(code, "57P01" | "57P02" | "57P03" | "58000")
}

/// Returns whether this is the SQLSTATE of a serialization failure or a deadlock.
pub fn is_conflict(code: &str) -> bool {
    matches!(code, "40001" | "40P01")
}

/// Returns whether an I/O error is the network's, and not one of invalid data, such as a certificate that is not accepted.
pub fn is_of_network(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Unsupported};
    !matches!(error.kind(), InvalidData | InvalidInput | Unsupported)
}

/// Returns the class of an SQLSTATE.
pub(in crate::store::sql) fn class(code: &str) -> &str {
    code.get(..2).unwrap_or_default()
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            Some(ServerError { code: Some(code), message, .. }) => write!(f, "{message} (SQLSTATE {code})"),
            Some(ServerError { code: None, message, .. }) => f.write_str(message),
            None => self.source.fmt(f),
        }
    }
}

impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverError").field("message", &self.to_string()).field("is_lost", &self.is_lost).finish()
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if self.answer.is_some() { None } else { self.source.source() }
    }
}

/// The error of a driver that has no connection.
#[derive(Debug)]
pub struct AcquireError {
    kind: AcquireErrorKind,
    source: BoxError,
}

/// The kind of an [`AcquireError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireErrorKind {
    /// No connection became free in time.
    NoneFree,
    /// The server refused the login, with this SQLSTATE.
    Login(String),
    /// The server cannot be reached, or the pool is closed.
    Unreachable,
    /// The connection cannot be made as it is configured.
    Misconfigured,
}

impl AcquireError {
    /// Makes an error of this kind with its cause.
    pub fn new(kind: AcquireErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: source.into() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> &AcquireErrorKind {
        &self.kind
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}
