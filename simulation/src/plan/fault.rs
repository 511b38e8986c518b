//! The faults of a run.

use std::time::Duration;

use super::{LENGTH, Settings};
use crate::world::Random;

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
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A server is killed, and starts again when the fault is over.
    Kill(usize),
    /// A server is stopped, and goes on.
    Pause(usize),
    /// A server is shut down well, and starts again.
    Stop(usize),
    /// The network between a server and the database is split.
    SplitDatabase(usize),
    /// The connections between a server and the database are cut.
    CutDatabase(usize),
    /// Messages between a server and the database are slow, and some do not arrive.
    StormDatabase(usize),
    /// The same between clients and servers.
    StormClients,
    /// The database crashes, and comes back.
    Restart,
    /// An administrator ends all connections.
    EndSessions,
    /// A synchronous standby takes over.
    FailOver,
    /// The database's clock jumps ahead, by as much as the fault lasts.
    Jump,
    /// Statements fail: deadlocks, serialization failures, cancellations, lost answers, a full disk.
    Trouble,
}

impl Kind {
    const NAMES: [&str; 12] = [
        "kill",
        "pause",
        "stop",
        "split",
        "cut",
        "storm",
        "storm-of-clients",
        "restart",
        "end-sessions",
        "fail-over",
        "jump",
        "trouble",
    ];

    /// Returns its number among the kinds.
    fn index(self) -> usize {
        match self {
            Self::Kill(_) => 0,
            Self::Pause(_) => 1,
            Self::Stop(_) => 2,
            Self::SplitDatabase(_) => 3,
            Self::CutDatabase(_) => 4,
            Self::StormDatabase(_) => 5,
            Self::StormClients => 6,
            Self::Restart => 7,
            Self::EndSessions => 8,
            Self::FailOver => 9,
            Self::Jump => 10,
            Self::Trouble => 11,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// Returns the server that it strikes, if it is one.
    pub fn server(self) -> Option<usize> {
        match self {
            Self::Kill(server)
            | Self::Pause(server)
            | Self::Stop(server)
            | Self::SplitDatabase(server)
            | Self::CutDatabase(server)
            | Self::StormDatabase(server) => Some(server),
            Self::StormClients | Self::Restart | Self::EndSessions | Self::FailOver | Self::Jump | Self::Trouble => {
                None
            }
        }
    }

    fn of(index: usize, server: usize) -> Self {
        match index {
            0 => Self::Kill(server),
            1 => Self::Pause(server),
            2 => Self::Stop(server),
            3 => Self::SplitDatabase(server),
            4 => Self::CutDatabase(server),
            5 => Self::StormDatabase(server),
            6 => Self::StormClients,
            7 => Self::Restart,
            8 => Self::EndSessions,
            9 => Self::FailOver,
            10 => Self::Jump,
            _ => Self::Trouble,
        }
    }
}

impl Fault {
    /// Returns how long it goes on in the database, once it has struck.
    pub fn goes_on(&self) -> Duration {
        match self.kind {
            Kind::Restart | Kind::FailOver => self.lasts.min(Duration::from_secs(10)),
            Kind::Jump => self.lasts,
            _ => Duration::ZERO,
        }
    }

    pub(super) fn draw_all(random: &mut Random, settings: &Settings) -> Vec<Self> {
        // Each run has some of the kinds, so that those that hide others are sometimes off.
        let kinds: Vec<_> = (0..Kind::NAMES.len()).filter(|_| random.once_in(2)).collect();
        let count = if kinds.is_empty() { 0 } else { random.number(0..=12) };
        let draw = |number| {
            let mut random = random.fork();
            let server = random.number(0..=settings.servers as u64 - 1);
            Self {
                number: usize::try_from(number).unwrap_or_default(),
                at: LENGTH.mul_f64(random.number(0..=1_000) as f64 / 1_000.0),
                lasts: random.duration(Duration::from_millis(20)..=Duration::from_secs(40)),
                kind: Kind::of(*random.one_of(&kinds), usize::try_from(server).unwrap_or_default()),
            }
        };
        (0..count).map(draw).collect()
    }
}
