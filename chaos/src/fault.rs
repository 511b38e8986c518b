//! The kinds of faults.

use std::fmt;

use tcp_proxy::{Cut, Moment};

use crate::{
    named::{Named, SomeOf},
    step::Step,
};

/// A fault that the harness caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// A connection between a server and the database was cut after a COMMIT was done, and before its answer.
    AfterCommitCut,
    /// A connection between a server and the database was cut before a COMMIT arrived.
    BeforeCommitCut,
    /// A client dropped its call.
    ClientHungUp,
    /// One connection between a server and the database was cut in the middle of its traffic.
    ConnectionCut,
    /// All connections between a server and the database were cut at once.
    ConnectionsCut,
    /// Every process of the database was killed; the database was started again on the same data.
    DatabaseKilled,
    /// The traffic between a server and the database was held for a while, or each answer was delayed.
    DatabaseStalled,
    /// The table of keys was locked, and more calls came than the server has connections for.
    PoolFull,
    /// A server was killed at a random moment.
    ServerKilled,
    /// A server killed itself at a step.
    ServerKilledAt(Step),
    /// A server was stopped at a step, and went on after its leases had ended.
    ServerPausedAt(Step),
}

impl FaultKind {
    /// Whether the client itself caused it, which changes nothing for its operation.
    pub(crate) fn is_of_clients(self) -> bool {
        self == Self::ClientHungUp
    }

    /// Whether handlers that it affects may go on afterwards as if nothing had happened.
    pub(crate) fn spares_handlers(self) -> bool {
        matches!(self, Self::DatabaseStalled | Self::PoolFull | Self::ServerPausedAt(_))
    }
}

impl From<Cut> for FaultKind {
    fn from(cut: Cut) -> Self {
        match cut.moment {
            Moment::AfterCommit => Self::AfterCommitCut,
            Moment::BeforeCommit => Self::BeforeCommitCut,
            Moment::Bytes { .. } if cut.all => Self::ConnectionsCut,
            Moment::Bytes { .. } => Self::ConnectionCut,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterCommitCut => f.write_str("connection cut after a COMMIT, before its answer"),
            Self::BeforeCommitCut => f.write_str("connection cut before a COMMIT arrived"),
            Self::ClientHungUp => f.write_str("client hung up"),
            Self::ConnectionCut => f.write_str("one database connection cut mid-flight"),
            Self::ConnectionsCut => f.write_str("all database connections of a server cut"),
            Self::DatabaseKilled => f.write_str("PostgreSQL killed and restarted"),
            Self::DatabaseStalled => f.write_str("database connections of a server stalled"),
            Self::PoolFull => f.write_str("pool of a server full"),
            Self::ServerKilled => f.write_str("server killed at a random moment"),
            Self::ServerKilledAt(step) => write!(f, "server killed at {step}"),
            Self::ServerPausedAt(step) => write!(f, "server paused at {step} beyond its lease"),
        }
    }
}

/// Faults that are enabled and disabled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    CommitCut,
    ConnectionCut,
    ConnectionsCut,
    DatabaseKill,
    FullPool,
    HangUp,
    ServerKill,
    Stall,
    StepKill,
    Zombie,
}

impl Named for Family {
    const ALL: &'static [Self] = &[
        Self::CommitCut,
        Self::ConnectionCut,
        Self::ConnectionsCut,
        Self::DatabaseKill,
        Self::FullPool,
        Self::HangUp,
        Self::ServerKill,
        Self::Stall,
        Self::StepKill,
        Self::Zombie,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::CommitCut => "commit-cut",
            Self::ConnectionCut => "connection-cut",
            Self::ConnectionsCut => "connections-cut",
            Self::DatabaseKill => "database-kill",
            Self::FullPool => "full-pool",
            Self::HangUp => "hang-up",
            Self::ServerKill => "server-kill",
            Self::Stall => "stall",
            Self::StepKill => "step-kill",
            Self::Zombie => "zombie",
        }
    }
}

/// The enabled faults.
pub(crate) type FaultSet = SomeOf<Family>;

#[cfg(test)]
mod tests {
    use tcp_proxy::Direction;

    use super::*;

    #[test]
    fn each_cut_is_a_fault_of_its_kind() {
        let bytes = Moment::Bytes { direction: Direction::Answers, left: 3 };
        for (all, moment, kind) in [
            (false, bytes, FaultKind::ConnectionCut),
            (true, bytes, FaultKind::ConnectionsCut),
            (false, Moment::AfterCommit, FaultKind::AfterCommitCut),
            (false, Moment::BeforeCommit, FaultKind::BeforeCommitCut),
        ] {
            assert_eq!(FaultKind::from(Cut { all, moment }), kind);
        }
    }
}
