//! The kinds of faults.

use std::fmt;

use clap::ValueEnum;

use crate::{named::SomeOf, step::Step};

/// A fault that the harness causes. Its [text](Self::row) says what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    AfterCommitCut,
    BeforeCommitCut,
    ConnectionCut,
    ConnectionsCut,
    ConnectionsLate,
    ConnectionsSilenced,
    Bouncer(BouncerFault),
    ClientHungUp,
    DatabaseKilled,
    DatabaseStalled,
    Mover(MoverFault),
    Primary(Failover),
    Redis(RedisFault),
    ServerKilled,
    ServerKilledAt(Step),
    ServerPausedAt(Step),
}

/// A fault of PgBouncer's connections to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum BouncerFault {
    /// The one that carries the next COMMIT is cut after it.
    AfterCommit,
    /// The one that carries the next COMMIT is cut before it.
    BeforeCommit,
    /// All are cut.
    Cut,
    /// All are silent for a while, and then cut.
    Silence,
    /// The database ends all sessions.
    Terminate,
}

/// A way to disturb the move to partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum MoverFault {
    /// A mover is started beside the one that may run.
    Another,
    /// The sessions of all movers are ended.
    Kill,
    /// The move is taken back, and another mover is started at once.
    Restart,
    /// The move is taken back.
    Stop,
}

/// A way to replace the primary under Patroni.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Failover {
    /// It is stopped with its Patroni, cut off from everything, until there is a new primary. Then it goes on, and its Patroni finds out.
    CutOff,
    /// Its Patroni hangs, so that nothing keeps it from going on as a primary beside the new one. Then its Patroni finds out.
    Hang,
    /// It is killed with its Patroni, and started again when there is a new primary.
    Kill,
    /// Its standbys get nothing from it for a while. Then it is killed.
    Lag,
    /// An operator hands over to a standby.
    Switchover,
}

/// A way to break a primary of the Redis Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum RedisFault {
    /// It hangs until its replica has taken over, and goes on then.
    Hang,
    /// It is killed, and started again when its replica has taken over.
    Kill,
    /// Its replica gets nothing from it for a moment. Then it is killed, and started again when that has taken over.
    Lag,
    /// It is killed, and started again at once, before its replica takes over.
    Restart,
    /// An operator hands over to its replica.
    Switchover,
}

/// The effect of a fault on calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// None: the client itself caused it.
    OfClient,
    /// None: it happens to the move to partitions.
    OfMove,
    /// All that was sent arrives, and a client that waits for its answer gets it, however late.
    Delay,
    /// Another server of the database has become the primary, or a primary of Redis was lost.
    Failover,
    /// Anything may be lost.
    Loss,
}

impl FaultKind {
    /// Whether the client itself caused it.
    pub(crate) fn is_of_clients(self) -> bool {
        self.row().0 == Effect::OfClient
    }

    /// Whether it changes nothing for an operation.
    pub(crate) fn spares_operations(self) -> bool {
        matches!(self.row().0, Effect::OfClient | Effect::OfMove)
    }

    /// Whether all answers arrive, however late.
    pub(crate) fn loses_nothing(self) -> bool {
        self.spares_operations() || self.row().0 == Effect::Delay
    }

    pub(crate) fn is_failover(self) -> bool {
        self.row().0 == Effect::Failover
    }

    /// Its effect, and its name in tables and stories. A step, if there is one, follows the name.
    fn row(self) -> (Effect, &'static str) {
        use Effect::{Delay, Loss, OfClient, OfMove};
        match self {
            Self::AfterCommitCut => (Loss, "connection cut after a COMMIT, before its answer"),
            Self::BeforeCommitCut => (Loss, "connection cut before a COMMIT arrived"),
            Self::ConnectionCut => (Loss, "one database connection cut mid-flight"),
            Self::ConnectionsCut => (Loss, "all database connections of a server cut"),
            Self::ConnectionsLate => (Delay, "database connections of a server late"),
            Self::ConnectionsSilenced => (Loss, "database connections of a server silent"),
            Self::Bouncer(BouncerFault::AfterCommit) => (Loss, "connection of PgBouncer cut after a COMMIT"),
            Self::Bouncer(BouncerFault::BeforeCommit) => (Loss, "connection of PgBouncer cut before a COMMIT"),
            Self::Bouncer(BouncerFault::Cut) => (Loss, "all connections of PgBouncer cut"),
            Self::Bouncer(BouncerFault::Silence) => (Loss, "connections of PgBouncer silent"),
            Self::Bouncer(BouncerFault::Terminate) => (Loss, "sessions of PgBouncer terminated"),
            Self::ClientHungUp => (OfClient, "client hung up"),
            Self::DatabaseKilled => (Loss, "PostgreSQL killed and restarted"),
            Self::DatabaseStalled => (Loss, "database connections of a server stalled"),
            Self::Mover(MoverFault::Another) => (OfMove, "second mover started"),
            Self::Mover(MoverFault::Kill) => (OfMove, "movers killed"),
            Self::Mover(MoverFault::Restart) => (OfMove, "move taken back, and begun again while its mover ran"),
            Self::Mover(MoverFault::Stop) => (OfMove, "move taken back"),
            Self::Primary(how) => (
                Effect::Failover,
                match how {
                    Failover::CutOff => "primary cut off, and a standby promoted",
                    Failover::Hang => "primary not fenced, and a standby promoted",
                    Failover::Kill => "primary killed, and a standby promoted",
                    Failover::Lag => "primary killed while its standbys lagged, and one promoted",
                    Failover::Switchover => "switchover to a standby",
                },
            ),
            Self::Redis(how) => (
                Effect::Failover,
                match how {
                    RedisFault::Hang => "primary of Redis hung, and its replica took over",
                    RedisFault::Kill => "primary of Redis killed, and its replica took over",
                    RedisFault::Lag => "primary of Redis killed while its replica lagged, which took over",
                    RedisFault::Restart => "primary of Redis killed and restarted",
                    RedisFault::Switchover => "switchover to a replica of Redis",
                },
            ),
            Self::ServerKilled => (Loss, "server killed at a random moment"),
            Self::ServerKilledAt(_) => (Loss, "server killed at"),
            Self::ServerPausedAt(_) => (Loss, "server paused beyond its lease at"),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = self.row();
        match self {
            Self::ServerKilledAt(step) | Self::ServerPausedAt(step) => write!(f, "{name} {step}"),
            _ => f.write_str(name),
        }
    }
}

/// Faults that are enabled and disabled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Family {
    BouncerKill,
    CommitCut,
    ConnectionCut,
    ConnectionsCut,
    DatabaseKill,
    Failover,
    HangUp,
    Mover,
    Redis,
    ServerKill,
    Silence,
    Stall,
    StepKill,
    Zombie,
}

/// The enabled faults.
pub(crate) type FaultSet = SomeOf<Family>;
