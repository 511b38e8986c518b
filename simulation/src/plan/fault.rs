//! The faults of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tonic_idempotency::policy::ExpiredKeyPolicy;

use super::{LENGTH, Operation, Procedure, Settings};
use crate::{database::Trouble, world::Random};

/// A fault: something that happens at a time, and is over after a while.
#[derive(Clone, Debug, Deserialize, Serialize)]
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
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum Kind {
    /// A server is killed, and starts again when the fault is over.
    Kill(usize),
    /// A server is stopped, and goes on. Nothing gets in or out meanwhile.
    Pause(usize),
    /// Nothing runs anywhere meanwhile, and the time passes: then all timers that have ended fire at once, in their order.
    Stall,
    /// The wall clocks of servers and clients are ahead by so many milliseconds, or behind. The database's is not.
    WallClocks(i64),
    /// A server is shut down well, and starts again.
    Stop(usize),
    /// The network between a server and the database is split.
    SplitDatabase(usize),
    /// The connections between a server and the database are cut.
    CutDatabase(usize),
    /// The connections between a server and the database are cut, and for a while no other can be made: a proxy is started again.
    RefuseDatabase(usize),
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
    /// A proxy distorts answers to clients.
    DistortClients,
    /// A proxy sends some requests of clients a second time.
    RepeatClients,
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
    /// The statuses of what operations have created are slow, or cannot be read.
    SlowStatuses,
    /// Connections are cut when a statement is about to take effect, or just has.
    CutsAtStatements,
}

impl Kind {
    const COUNT: u64 = 28;

    /// Returns the server that it strikes, if it is one.
    pub fn server(self) -> Option<usize> {
        match self {
            Self::Kill(server)
            | Self::Pause(server)
            | Self::Stop(server)
            | Self::SplitDatabase(server)
            | Self::CutDatabase(server)
            | Self::RefuseDatabase(server)
            | Self::StormDatabase(server)
            | Self::SilenceDatabase(server)
            | Self::StormOutside(server) => Some(server),
            _ => None,
        }
    }

    /// Returns whether it is only between clients and servers.
    pub fn is_of_clients(self) -> bool {
        matches!(
            self,
            Self::CutClients | Self::DistortClients | Self::RepeatClients | Self::SplitClients | Self::StormClients
        )
    }

    fn draw(random: &mut Random, kinds: &[u64], server: usize, settings: &Settings) -> Self {
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
            22 => Self::RefuseDatabase(server),
            23 => Self::RepeatClients,
            24 => Self::SlowStatuses,
            25 => Self::Stall,
            26 => Self::WallClocks(draw_difference(random, settings)),
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

    /// Draws when answers are distorted, of which the clients' layer has to make what it can.
    pub(super) fn draw_distortions(random: &mut Random, settings: &Settings, first: usize) -> Vec<Self> {
        let most = if settings.client_layer && random.once_in(2) { 4 } else { 0 };
        let draw = |number| Self {
            number,
            at: LENGTH.mul_f64(random.number(0..=1_000) as f64 / 1_000.0),
            lasts: random.duration(Duration::from_millis(100)..=Duration::from_secs(40)),
            kind: Kind::DistortClients,
            trouble: Trouble::NONE,
        };
        (first..first + most).map(draw).collect()
    }

    pub(super) fn draw_all(random: &mut Random, settings: &Settings, operations: &[Operation]) -> Vec<Self> {
        // Each run has many of the kinds or a few, so that those that hide others are often off.
        let one_in = *random.one_of(&[3, 8, 16]);
        let kinds: Vec<_> = (0..Kind::COUNT).filter(|_| random.once_in(one_in)).collect();
        // Nothing is excused for long after brief ones, so that there may be more of them.
        let (length, most) =
            *random.one_of(&[(Length::Any, 14), (Length::Any, 14), (Length::Brief, 20), (Length::Blink, 60)]);
        let count = if kinds.is_empty() { 0 } else { random.number(0..=most) };
        let mut troubles = random.fork();
        let draw = |number| {
            let mut random = random.fork();
            let (at, server) = aim(&mut random, settings, operations);
            let kind = Kind::draw(&mut random, &kinds, server, settings);
            Self {
                number: usize::try_from(number).unwrap_or_default(),
                at: amid_a_message(&mut random, kind, operations)
                    .or_else(|| amid_a_handler(&mut random, kind, operations))
                    .unwrap_or(at),
                lasts: draw_duration(&mut random, settings, length),
                kind,
                trouble: trouble(&mut troubles.fork(), kind, settings),
            }
        };
        (0..count).map(draw).collect()
    }
}

/// Draws when and at which server a fault happens: at any time and any one; amid the crowd; or when an operation claims its key there, renews its
/// lease, or is about to end.
fn aim(random: &mut Random, settings: &Settings, operations: &[Operation]) -> (Duration, usize) {
    let server = usize::try_from(random.number(0..=settings.servers as u64 - 1)).unwrap_or_default();
    if let Some(rush) = settings.rush.filter(|_| random.once_in(3)) {
        return (rush + random.duration(Duration::ZERO..=Duration::from_millis(1_200)), server);
    }
    if operations.is_empty() || random.once_in(4) {
        return (LENGTH.mul_f64(random.number(0..=1_000) as f64 / 1_000.0), server);
    }
    // A lease is renewed after each third.
    let renewal = settings.policies.lease / 3;
    let slow: Vec<_> = operations.iter().filter(|it| it.behaviour(0).before >= renewal).collect();
    let operation = match !slow.is_empty() && random.once_in(2) {
        true => *random.one_of(&slow),
        false => random.one_of(operations),
    };
    let (begins, before) = (operation.begins, operation.behaviour(0).before);
    let renewals = u64::try_from(before.as_nanos() / renewal.as_nanos()).unwrap_or_default();
    let (moment, most) = match random.number(0..=3) {
        2 | 3 if renewals > 0 => (renewal * u32::try_from(random.number(1..=renewals)).unwrap_or(1), 4),
        0 | 2 | 3 => (Duration::ZERO, 3),
        _ => (before, 40),
    };
    (begins + moment + random.duration(Duration::ZERO..=Duration::from_millis(most)), operation.server)
}

/// Draws when a server is stopped while a message has arrived by half, if there is one.
fn amid_a_message(random: &mut Random, kind: Kind, operations: &[Operation]) -> Option<Duration> {
    let halves: Vec<_> = operations.iter().filter_map(Operation::second_half).collect();
    (matches!(kind, Kind::Stop(_)) && !halves.is_empty() && random.once_in(2))
        .then(|| random.one_of(&halves).saturating_sub(random.duration(Duration::ZERO..=Duration::from_secs(2))))
}

/// Draws when a server of the database is lost while a handler runs that has its effect there, if there is one: its reservation may be lost.
fn amid_a_handler(random: &mut Random, kind: Kind, operations: &[Operation]) -> Option<Duration> {
    let handlers: Vec<_> = operations.iter().filter(|it| it.procedure == Procedure::Insert).collect();
    (matches!(kind, Kind::Restart | Kind::FailOver) && !handlers.is_empty() && random.once_in(2)).then(|| {
        let operation = random.one_of(&handlers);
        let [least, most] = [3, 100].map(Duration::from_millis);
        operation.begins + random.duration(least..=most)
    })
}

/// Draws by how much wall clocks differ from the database's: by hours, or by less than is allowed where it counts.
fn draw_difference(random: &mut Random, settings: &Settings) -> i64 {
    let counts = settings.client_journal || settings.policies.expired_keys == ExpiredKeyPolicy::Refuse;
    let most = if counts { Duration::from_secs(120) } else { Duration::from_secs(6 * 3600) };
    let difference = i64::try_from(random.duration(Duration::from_millis(1)..=most).as_millis()).unwrap_or_default();
    if random.once_in(2) { difference } else { -difference }
}

/// How long the faults of a run last.
#[derive(Clone, Copy)]
enum Length {
    /// Any time.
    Any,
    /// About as long as the store is patient.
    Brief,
    /// As long as a message or two take.
    Blink,
}

/// Draws how long a fault lasts: for any time, or for about a lease or the patience of the store.
fn draw_duration(random: &mut Random, settings: &Settings, length: Length) -> Duration {
    if let Length::Blink = length {
        return random.duration(Duration::from_millis(1)..=Duration::from_millis(10));
    }
    if let Length::Brief = length {
        let least = if random.once_in(2) { settings.timeout } else { settings.timeout / 5 };
        return random.duration(least..=settings.timeout * 2);
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
        Kind::SlowStatuses => Trouble {
            status: [timeout / 8, timeout * 2],
            status_error: if random.once_in(2) { 0.3 } else { 0.0 },
            ..Trouble::NONE
        },
        Kind::CutsAtStatements => Trouble { cut: *random.one_of(&[0.02, 0.1, 0.3, 0.8]), ..Trouble::NONE },
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
            stale_plan: chance(random),
            status_error: chance(random),
            status: Trouble::NONE.status,
            cut: 0.0,
            latency: if random.once_in(2) { milliseconds(random, 1_000) } else { Trouble::NONE.latency },
            commit: if random.once_in(3) { milliseconds(random, 8_000) } else { Trouble::NONE.commit },
        },
    }
}
