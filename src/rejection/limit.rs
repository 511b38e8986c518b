//! The limit that a rejected call would have exceeded.

/// A limit that a call would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) limit: LimitKind,
    pub(crate) of: Party,
}

/// The limited things: the fields of [`Limits`](crate::policy::Limits) beyond which calls are rejected as `OVERLOADED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    InFlight,
    Records,
    Transactions,
    Unrecorded,
    Waiting,
}

/// The party that a limit applies to: all callers of the server together, or one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    Caller,
    Server,
}

impl Exceeded {
    /// The message for the client.
    pub(super) fn message(self) -> &'static str {
        match (self.limit, self.of) {
            (LimitKind::InFlight, Party::Server) => {
                "the server has as many calls in flight as it may; retry with the same key"
            }
            (LimitKind::InFlight, Party::Caller) => {
                "you have as many calls in flight as one caller may; retry with the same key when some of them have ended"
            }
            (LimitKind::Records, _) => {
                "the server keeps as many records of your calls as it may; retries of recorded calls are answered, and new calls are \
                 accepted again when records have expired"
            }
            (LimitKind::Transactions, Party::Server) => {
                "the server has as many transactions as its pool may have; retry with the same key"
            }
            (LimitKind::Transactions, Party::Caller) => {
                "you have as many transactions as one caller may; retry with the same key when some of your calls have ended"
            }
            (LimitKind::Unrecorded, Party::Server) => {
                "the server has as many outcomes to record as it may; retry with the same key"
            }
            (LimitKind::Unrecorded, Party::Caller) => {
                "the server has as many outcomes of your calls to record as it may; retry with the same key"
            }
            (LimitKind::Waiting, Party::Server) => {
                "the server has as many calls that wait for another one as it may; retry with the same key"
            }
            (LimitKind::Waiting, Party::Caller) => {
                "you have as many calls that wait for another one as one caller may; retry with the same key when some of them have ended"
            }
        }
    }
}

impl LimitKind {
    /// The name that clients and metrics have.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Records => "records",
            Self::Transactions => "transactions",
            Self::Unrecorded => "unrecorded",
            Self::Waiting => "waiting",
        }
    }
}

impl Party {
    /// The name that clients and metrics have.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Server => "server",
        }
    }
}
