//! The faults of a run.

use std::time::Duration;

use super::{LENGTH, Operation, Settings};
use crate::{database::Trouble, world::Random};

/// A fault: something that happens at a time, and is over after a while.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Its number in the plan.
    pub number: usize,
    /// When it happens.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// Its kind.
    pub kind: Kind,
    /// The errors and the latency of the database meanwhile, if it is one of these kinds.
    pub trouble: Trouble,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A server is killed, and starts again when the fault is over.
    Kill(usize),
    /// A server is stopped, and goes on. Nothing gets in or out meanwhile.
    Pause(usize),
    /// A server is shut down well, and starts again.
    Stop(usize),
    /// The network between a server and the database is split.
    SplitDatabase(usize),
    /// The connections between a server and the database are cut.
    CutDatabase(usize),
    /// Messages between a server and the database are slow, and some do not arrive.
    StormDatabase(usize),
    /// Many messages between a server and the database do not arrive, and neither side is told.
    SilenceDatabase(usize),
    /// The network between all servers and the database is split.
    Outage,
    /// Messages between a server and the system where reserved handlers have their effects are slow, and some do not arrive.
    StormOutside(usize),
    /// Messages between clients and servers are slow, and some do not arrive.
    StormClients,
    /// The network between clients and servers is split.
    SplitClients,
    /// The connections between clients and servers are cut.
    CutClients,
    /// The database crashes, and comes back.
    Restart,
    /// An administrator ends all connections.
    EndSessions,
    /// A synchronous standby takes over.
    FailOver,
    /// An asynchronous standby takes over, without as many of the last commits.
    LoseCommits(usize),
    /// The database's clock jumps ahead, by as much as the fault lasts.
    Jump,
    /// The database's clock is set back, by as much as the fault lasts.
    SetBack,
    /// Statements fail: deadlocks, serialization failures, cancellations, lost answers, a full disk.
    Trouble,
    /// Statements take about as long as the store waits for them.
    SlowStatements,
    /// COMMITs take a good part of a lease.
    SlowCommits,
    /// Connections are cut when a statement is about to take effect, or just has.
    CutsAtStatements,
}

impl Kind {
    const COUNT: u64 = 23;

    /// Returns the server that it strikes, if it is one.
    pub fn server(self) -> Option<usize> {
        match self {
            Self::Kill(server)
            | Self::Pause(server)
            | Self::Stop(server)
            | Self::SplitDatabase(server)
            | Self::CutDatabase(server)
            | Self::StormDatabase(server)
            | Self::SilenceDatabase(server)
            | Self::StormOutside(server) => Some(server),
            _ => None,
        }
    }

    fn draw(random: &mut Random, kinds: &[u64], settings: &Settings) -> Self {
        let server = usize::try_from(random.number(0..=settings.servers as u64 - 1)).unwrap_or_default();
        match *random.one_of(kinds) {
            0 => Self::Kill(server),
            1 => Self::Pause(server),
            2 => Self::Stop(server),
            3 => Self::SplitDatabase(server),
            4 => Self::CutDatabase(server),
            5 => Self::StormDatabase(server),
            6 => Self::SilenceDatabase(server),
            7 => Self::Outage,
            8 => Self::StormOutside(server),
            9 => Self::StormClients,
            10 => Self::SplitClients,
            11 => Self::CutClients,
            12 => Self::Restart,
            13 => Self::EndSessions,
            14 => Self::FailOver,
            15 => Self::LoseCommits(usize::try_from(random.number(1..=20)).unwrap_or(1)),
            16 => Self::Jump,
            17 => Self::SetBack,
            18 | 19 => Self::Trouble,
            20 => Self::SlowStatements,
            21 => Self::SlowCommits,
            _ => Self::CutsAtStatements,
        }
    }
}

impl Fault {
    /// Returns how long it goes on in the database, once it has struck.
    pub fn goes_on(&self) -> Duration {
        match self.kind {
            Kind::Restart | Kind::FailOver | Kind::LoseCommits(_) => self.lasts.min(Duration::from_secs(10)),
            Kind::Jump | Kind::SetBack => self.lasts,
            _ => Duration::ZERO,
        }
    }

    pub(super) fn draw_all(random: &mut Random, settings: &Settings, operations: &[Operation]) -> Vec<Self> {
        // Each run has some of the kinds, so that those that hide others are sometimes off.
        let kinds: Vec<_> = (0..Kind::COUNT).filter(|_| random.once_in(3)).collect();
        let count = if kinds.is_empty() { 0 } else { random.number(0..=14) };
        // Nothing is excused for long after brief ones.
        let are_brief = random.once_in(2);
        let mut troubles = random.fork();
        let draw = |number| {
            let mut random = random.fork();
            let kind = Kind::draw(&mut random, &kinds, settings);
            Self {
                number: usize::try_from(number).unwrap_or_default(),
                at: draw_time(&mut random, kind, settings, operations),
                lasts: draw_duration(&mut random, settings, are_brief),
                kind,
                trouble: trouble(&mut troubles.fork(), kind, settings),
            }
        };
        (0..count).map(draw).collect()
    }
}

/// Draws when a fault happens: at any time; when a handler is about to end; amid the crowd; or, if it is a stop, when a message has
/// arrived by half.
fn draw_time(random: &mut Random, kind: Kind, settings: &Settings, operations: &[Operation]) -> Duration {
    let halves: Vec<_> = operations.iter().filter_map(Operation::second_half).collect();
    if let Kind::Stop(_) = kind
        && !halves.is_empty()
        && random.once_in(2)
    {
        return random.one_of(&halves).saturating_sub(random.duration(Duration::ZERO..=Duration::from_secs(2)));
    }
    if let Some(rush) = settings.rush.filter(|_| random.once_in(3)) {
        return rush + random.duration(Duration::ZERO..=Duration::from_millis(1_200));
    }
    if operations.is_empty() || random.once_in(2) {
        return LENGTH.mul_f64(random.number(0..=1_000) as f64 / 1_000.0);
    }
    let operation = random.one_of(operations);
    operation.begins + operation.behaviour(0).before + Duration::from_millis(random.number(0..=40))
}

/// Draws how long a fault lasts: for any time, or for about a lease or the patience of the store.
fn draw_duration(random: &mut Random, settings: &Settings, is_brief: bool) -> Duration {
    if is_brief {
        return random.duration(settings.timeout / 5..=settings.timeout * 2);
    }
    let of = *random.one_of(&[settings.policies.lease, settings.timeout]);
    match random.once_in(2) {
        true => random.duration(of / 5..=of * 2),
        false => random.duration(Duration::from_millis(20)..=Duration::from_secs(40)),
    }
}

/// Draws some of what may go wrong in a server of the database.
fn trouble(random: &mut Random, kind: Kind, settings: &Settings) -> Trouble {
    let milliseconds = |random: &mut Random, most| {
        [Duration::from_micros(100), random.duration(Duration::from_millis(1)..=Duration::from_millis(most))]
    };
    let chance = |of: &mut Random| if of.once_in(3) { 0.002 * of.number(1..=50) as f64 } else { 0.0 };
    let (lease, timeout) = (settings.policies.lease, settings.timeout);
    match kind {
        Kind::SlowStatements => Trouble { latency: [timeout / 4, timeout + timeout / 4], ..Trouble::NONE },
        Kind::SlowCommits => Trouble { commit: [lease / 6, lease.max(timeout)], ..Trouble::NONE },
        Kind::CutsAtStatements => Trouble { cut: 0.01 * random.number(1..=20) as f64, ..Trouble::NONE },
        _ => Trouble {
            deadlock: chance(random),
            serialization: chance(random),
            canceled: chance(random),
            lock_not_available: chance(random),
            disk_full: chance(random),
            too_many_connections: chance(random),
            after_effect: chance(random),
            pooler_changes: chance(random),
            pooler_drops: chance(random),
            left_open: chance(random),
            cut: 0.0,
            latency: if random.once_in(2) { milliseconds(random, 1_000) } else { Trouble::NONE.latency },
            commit: if random.once_in(3) { milliseconds(random, 8_000) } else { Trouble::NONE.commit },
        },
    }
}
