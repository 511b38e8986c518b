//! The kinds of faults.

use std::fmt;

use tcp_proxy::{Cut, Moment};

use crate::{
    named::{Named, SomeOf},
    step::Step,
    topology::{Failover, RedisFault},
};

/// A fault that the harness caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// A connection between a server and the database was cut after a COMMIT was done, and before its answer.
    AfterCommitCut,
    /// A row of a statement that several calls shared was another transaction's, which had not ended.
    BatchBlocked,
    /// A connection between a server and the database was cut after a statement that several calls shared was done, and before
    /// its answer.
    BatchCutAfter,
    /// A connection between a server and the database was cut before a statement that several calls shared arrived.
    BatchCutBefore,
    /// A connection between a server and the database was cut before a COMMIT arrived.
    BeforeCommitCut,
    /// A connection between PgBouncer and the database was cut after a COMMIT was done, and before its answer.
    BouncerAfterCommitCut,
    /// A connection between PgBouncer and the database was cut before a COMMIT arrived.
    BouncerBeforeCommitCut,
    /// All connections between PgBouncer and the database were cut at once.
    BouncerCut,
    /// Nothing that was sent on the connections between PgBouncer and the database arrived, until they were cut.
    BouncerSilenced,
    /// The database ended all sessions of PgBouncer.
    BouncerTerminated,
    /// A client dropped its call.
    ClientHungUp,
    /// COMMITs were not answered until a standby that was not there was not waited for any more.
    CommitsHung,
    /// One connection between a server and the database was cut in the middle of its traffic.
    ConnectionCut,
    /// All connections between a server and the database were cut at once.
    ConnectionsCut,
    /// The traffic on the connections between a server and the database arrived late. New connections were not delayed.
    ConnectionsLate,
    /// Nothing that was sent on the connections between a server and the database arrived, until they were cut.
    ConnectionsSilenced,
    /// Every process of the database was killed; the database was started again on the same data.
    DatabaseKilled,
    /// The traffic between a server and the database was held for a while, or each answer was delayed.
    DatabaseStalled,
    /// Many clients sent calls with keys to a server, and hung up at once.
    Flooded,
    /// One user had more slow calls on a server than it has connections for.
    Hogged,
    /// The look-up of statuses was slow.
    OutboxAsleep,
    /// The move to partitions was taken back, and begun again while its mover still ran.
    MoveRestarted,
    /// The move to partitions was taken back.
    MoveStopped,
    /// Another mover was started beside the first one.
    MoverDoubled,
    /// The sessions of all movers were ended.
    MoverKilled,
    /// The outbox was locked.
    OutboxLocked,
    /// The table of keys and its functions got another owner, and the migrations were run then.
    OwnerChanged,
    /// The table of keys was locked, and more calls came than the server has connections for.
    PoolFull,
    /// The primary was stopped and cut off from everything until a standby was promoted, and went on then.
    PrimaryCutOff,
    /// The primary was killed, and a standby promoted.
    PrimaryKilled,
    /// The primary was killed when its standbys had got nothing from it for a while, and one of them was promoted.
    PrimaryKilledAhead,
    /// An operator made a standby the primary.
    PrimarySwitched,
    /// The Patroni of the primary hung until a standby was promoted, so that there were two primaries.
    PrimaryUnfenced,
    /// A primary of the Redis Cluster hung until its replica took over, and went on then.
    RedisHung,
    /// A primary of the Redis Cluster was killed, and its replica took over.
    RedisKilled,
    /// A primary of the Redis Cluster was killed while its replica lagged, which took over.
    RedisKilledAhead,
    /// A primary of the Redis Cluster was killed, and started again at once.
    RedisRestarted,
    /// An operator made the replica of a primary of the Redis Cluster the primary.
    RedisSwitched,
    /// The table of keys took no row of one call, among many at once.
    RowRefused,
    /// A server was killed at a random moment.
    ServerKilled,
    /// A server killed itself at a step.
    ServerKilledAt(Step),
    /// A server was stopped at a step, and went on after its leases had ended.
    ServerPausedAt(Step),
}

impl FaultKind {
    /// Whether the client itself caused it.
    pub(crate) fn is_of_clients(self) -> bool {
        matches!(self, Self::ClientHungUp | Self::Flooded | Self::Hogged)
    }

    /// Whether it changes nothing for an operation: its client itself caused it, or it happened to the move to partitions.
    pub(crate) fn spares_operations(self) -> bool {
        self.is_of_clients()
            || matches!(self, Self::MoveRestarted | Self::MoveStopped | Self::MoverDoubled | Self::MoverKilled)
    }

    /// Whether all that was sent arrives, and who waits for an answer gets it, however late.
    pub(crate) fn loses_nothing(self) -> bool {
        self.spares_operations()
            || matches!(
                self,
                Self::CommitsHung
                    | Self::ConnectionsLate
                    | Self::OutboxAsleep
                    | Self::OutboxLocked
                    | Self::OwnerChanged
            )
    }

    /// Whether another server of the database has become the primary, or a primary of Redis was lost.
    pub(crate) fn is_failover(self) -> bool {
        matches!(
            self,
            Self::PrimaryCutOff
                | Self::PrimaryKilled
                | Self::PrimaryKilledAhead
                | Self::PrimarySwitched
                | Self::PrimaryUnfenced
                | Self::RedisHung
                | Self::RedisKilled
                | Self::RedisKilledAhead
                | Self::RedisRestarted
                | Self::RedisSwitched
        )
    }

    /// Whether handlers that it affects may go on afterwards as if nothing had happened.
    pub(crate) fn spares_handlers(self) -> bool {
        self.is_failover()
            || matches!(
                self,
                Self::CommitsHung
                    | Self::ConnectionsLate
                    | Self::DatabaseStalled
                    | Self::OutboxLocked
                    | Self::PoolFull
                    | Self::ServerPausedAt(_)
            )
    }

    /// Whether it ends connections to the database, which can be made again at once.
    pub(crate) fn is_cut(self) -> bool {
        matches!(
            self,
            Self::AfterCommitCut
                | Self::BatchCutAfter
                | Self::BatchCutBefore
                | Self::BeforeCommitCut
                | Self::BouncerAfterCommitCut
                | Self::BouncerBeforeCommitCut
                | Self::BouncerCut
                | Self::BouncerTerminated
                | Self::ConnectionCut
                | Self::ConnectionsCut
        )
    }

    /// The same cut between PgBouncer and the database.
    pub(crate) fn behind_bouncer(self) -> Self {
        match self {
            Self::AfterCommitCut => Self::BouncerAfterCommitCut,
            Self::BeforeCommitCut => Self::BouncerBeforeCommitCut,
            other => other,
        }
    }
}

impl From<Failover> for FaultKind {
    fn from(how: Failover) -> Self {
        match how {
            Failover::CutOff => Self::PrimaryCutOff,
            Failover::Hang => Self::PrimaryUnfenced,
            Failover::Kill => Self::PrimaryKilled,
            Failover::Lag => Self::PrimaryKilledAhead,
            Failover::Switchover => Self::PrimarySwitched,
        }
    }
}

impl From<RedisFault> for FaultKind {
    fn from(how: RedisFault) -> Self {
        match how {
            RedisFault::Hang => Self::RedisHung,
            RedisFault::Kill => Self::RedisKilled,
            RedisFault::Lag => Self::RedisKilledAhead,
            RedisFault::Restart => Self::RedisRestarted,
            RedisFault::Switchover => Self::RedisSwitched,
        }
    }
}

impl From<Cut> for FaultKind {
    fn from(cut: Cut) -> Self {
        match cut.moment {
            Moment::AfterCommit => Self::AfterCommitCut,
            Moment::AfterStatement(_) => Self::BatchCutAfter,
            Moment::BeforeStatement(_) => Self::BatchCutBefore,
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
            Self::BatchBlocked => f.write_str("row of a shared statement locked"),
            Self::BatchCutAfter => f.write_str("connection cut after a shared statement"),
            Self::BatchCutBefore => f.write_str("connection cut before a shared statement"),
            Self::BeforeCommitCut => f.write_str("connection cut before a COMMIT arrived"),
            Self::BouncerAfterCommitCut => f.write_str("connection of PgBouncer cut after a COMMIT"),
            Self::BouncerBeforeCommitCut => f.write_str("connection of PgBouncer cut before a COMMIT"),
            Self::BouncerCut => f.write_str("all connections of PgBouncer cut"),
            Self::BouncerSilenced => f.write_str("connections of PgBouncer silent"),
            Self::BouncerTerminated => f.write_str("sessions of PgBouncer terminated"),
            Self::ClientHungUp => f.write_str("client hung up"),
            Self::CommitsHung => f.write_str("COMMITs not answered"),
            Self::ConnectionCut => f.write_str("one database connection cut mid-flight"),
            Self::ConnectionsCut => f.write_str("all database connections of a server cut"),
            Self::ConnectionsLate => f.write_str("database connections of a server late"),
            Self::ConnectionsSilenced => f.write_str("database connections of a server silent"),
            Self::DatabaseKilled => f.write_str("PostgreSQL killed and restarted"),
            Self::DatabaseStalled => f.write_str("database connections of a server stalled"),
            Self::Flooded => f.write_str("flood of calls that hang up"),
            Self::Hogged => f.write_str("one user holds all transactions"),
            Self::MoveRestarted => f.write_str("move taken back, and begun again while its mover ran"),
            Self::MoveStopped => f.write_str("move taken back"),
            Self::MoverDoubled => f.write_str("second mover started"),
            Self::MoverKilled => f.write_str("movers killed"),
            Self::OutboxAsleep => f.write_str("look-up of statuses slow"),
            Self::OutboxLocked => f.write_str("outbox locked"),
            Self::OwnerChanged => f.write_str("owner of the table changed"),
            Self::PoolFull => f.write_str("pool of a server full"),
            Self::PrimaryCutOff => f.write_str("primary cut off, and a standby promoted"),
            Self::PrimaryKilled => f.write_str("primary killed, and a standby promoted"),
            Self::PrimaryKilledAhead => f.write_str("primary killed while its standbys lagged, and one promoted"),
            Self::PrimarySwitched => f.write_str("switchover to a standby"),
            Self::PrimaryUnfenced => f.write_str("primary not fenced, and a standby promoted"),
            Self::RedisHung => f.write_str("primary of Redis hung, and its replica took over"),
            Self::RedisKilled => f.write_str("primary of Redis killed, and its replica took over"),
            Self::RedisKilledAhead => f.write_str("primary of Redis killed while its replica lagged, which took over"),
            Self::RedisRestarted => f.write_str("primary of Redis killed and restarted"),
            Self::RedisSwitched => f.write_str("switchover to a replica of Redis"),
            Self::RowRefused => f.write_str("row of one call among many refused"),
            Self::ServerKilled => f.write_str("server killed at a random moment"),
            Self::ServerKilledAt(step) => write!(f, "server killed at {step}"),
            Self::ServerPausedAt(step) => write!(f, "server paused at {step} beyond its lease"),
        }
    }
}

/// Faults that are enabled and disabled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    Batch,
    BouncerKill,
    CommitCut,
    ConnectionCut,
    ConnectionsCut,
    DatabaseKill,
    Flood,
    FullPool,
    HangUp,
    Hog,
    ServerKill,
    Silence,
    SlowOutbox,
    Stall,
    StepKill,
    Zombie,
    /// The last five, so that the others' seeds stay as they are.
    Failover,
    Redis,
    Mover,
    Hang,
    Owner,
}

impl Named for Family {
    const ALL: &'static [Self] = &[
        Self::Batch,
        Self::BouncerKill,
        Self::CommitCut,
        Self::ConnectionCut,
        Self::ConnectionsCut,
        Self::DatabaseKill,
        Self::Failover,
        Self::Flood,
        Self::FullPool,
        Self::Hang,
        Self::HangUp,
        Self::Hog,
        Self::Mover,
        Self::Owner,
        Self::Redis,
        Self::ServerKill,
        Self::Silence,
        Self::SlowOutbox,
        Self::Stall,
        Self::StepKill,
        Self::Zombie,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::BouncerKill => "bouncer-kill",
            Self::CommitCut => "commit-cut",
            Self::ConnectionCut => "connection-cut",
            Self::ConnectionsCut => "connections-cut",
            Self::DatabaseKill => "database-kill",
            Self::Failover => "failover",
            Self::Flood => "flood",
            Self::FullPool => "full-pool",
            Self::Hang => "hang",
            Self::HangUp => "hang-up",
            Self::Hog => "hog",
            Self::Mover => "mover",
            Self::Owner => "owner",
            Self::Redis => "redis",
            Self::ServerKill => "server-kill",
            Self::Silence => "silence",
            Self::SlowOutbox => "slow-outbox",
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
            (false, Moment::AfterStatement("x"), FaultKind::BatchCutAfter),
            (false, Moment::BeforeStatement("x"), FaultKind::BatchCutBefore),
        ] {
            assert_eq!(FaultKind::from(Cut { all, moment }), kind);
        }
    }
}
