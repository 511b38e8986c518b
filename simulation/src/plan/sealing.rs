//! How servers seal what they record, which half of the seeds draw.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LENGTH;
use crate::world::Random;

/// How far apart servers learn of something at most.
const APART: Duration = Duration::from_secs(3);

/// The sealing of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sealing {
    /// Whether each scope has keys of its own, as a service for keys has them. Then a recovery, which knows no scope, has none.
    pub has_scopes: bool,
    /// The deployments, in their order. The first one is there from the beginning.
    pub deployments: Vec<Deployment>,
    /// The number of servers that never seal, and open only.
    pub readers: usize,
    /// The rotations. Each has a further key.
    pub rotations: Vec<Rotation>,
    /// The keys that are destroyed for good.
    pub destructions: Vec<Destruction>,
    /// The times in which keys are away.
    pub absences: Vec<Absence>,
}

/// The use that a server makes of keys.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Role {
    /// They have none.
    Plain,
    /// They open what others have sealed.
    Opens,
    /// They seal, too.
    Seals,
}

/// A deployment, which restarts each server. It begins when the one before is over.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Deployment {
    /// The role that all have after it.
    pub role: Role,
    /// When it begins, at each server.
    pub at: Vec<Duration>,
}

/// A rotation, of the keys that seal and of those for hashes: known everywhere, and then current.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Rotation {
    /// When each server knows the further key.
    pub known: Vec<Duration>,
    /// When it is each server's current one.
    pub current: Vec<Duration>,
}

/// A key that is destroyed for good.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Destruction {
    /// Its scope, if each has keys of its own.
    pub scope: u8,
    /// Its number: those that there are at first have 0.
    pub number: usize,
    /// When each server learns of it. Until then the server has a copy.
    pub heard: Vec<Duration>,
}

/// A time in which keys cannot be asked for.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Absence {
    /// The server; `None` for all.
    pub server: Option<usize>,
    /// When it begins.
    pub from: Duration,
    /// When it is over.
    pub to: Duration,
    /// How that shows.
    pub kind: Away,
}

/// How it shows that a ring cannot be asked.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Away {
    /// It says so.
    Fails,
    /// It answers when it is over.
    Hangs,
    /// It panics.
    Panics,
}

impl Sealing {
    pub(super) fn draw(random: &mut Random, servers: usize, begun: &[Duration]) -> Option<Self> {
        if random.once_in(2) {
            return None;
        }
        let mut begins = Duration::ZERO;
        let roles: &[Role] = match random.number(0..=7) {
            0 => &[Role::Plain, Role::Opens, Role::Seals],
            1 => &[Role::Opens, Role::Seals, Role::Opens],
            2 => &[Role::Seals, Role::Opens],
            _ => &[Role::Seals],
        };
        let deployments = roles.iter().map(|role| {
            let at = spread(random, begins, servers);
            begins = at.iter().copied().max().unwrap_or_default() + aim(random, begun) / 2;
            Deployment { role: *role, at }
        });
        let deployments = deployments.collect();
        let readers = if random.once_in(4) { 1 } else { 0 };
        let mut rotated: Vec<_> = (0..random.number(0..=3)).map(|_| aim(random, begun)).collect();
        rotated.sort();
        let rotations: Vec<_> = rotated
            .into_iter()
            .map(|at| {
                let known = spread(random, at, servers);
                let everywhere = known.iter().copied().max().unwrap_or_default();
                Rotation { current: spread(random, everywhere, servers), known }
            })
            .collect();
        // Rarely of the last key: from then on nothing is stored of responses.
        let last = rotations.len() as u64;
        let most = if last == 0 && !random.once_in(4) { 0 } else { 2 };
        let destructions = (0..random.number(0..=most)).map(|_| {
            let of_last = last == 0 || random.once_in(6);
            let number = if of_last { last } else { random.number(0..=last - 1) };
            let at = aim(random, begun);
            Destruction {
                scope: u8::from(random.once_in(4)),
                number: usize::try_from(number).unwrap_or_default(),
                heard: spread(random, at, servers),
            }
        });
        let destructions = destructions.collect();
        let absences = (0..random.number(0..=4)).map(|_| {
            let from = aim(random, begun);
            let lasts = random.duration(Duration::from_millis(20)..=Duration::from_secs(40));
            let server = usize::try_from(random.number(0..=servers as u64 - 1)).unwrap_or_default();
            Absence {
                server: (!random.once_in(3)).then_some(server),
                from,
                // The last crowd finds them.
                to: LENGTH.min(from + lasts),
                kind: *random.one_of(&[Away::Fails, Away::Fails, Away::Hangs, Away::Hangs, Away::Panics]),
            }
        });
        let absences = absences.collect();
        Some(Self { has_scopes: random.once_in(2), deployments, readers, rotations, destructions, absences })
    }

    /// Returns the role of a server after a deployment.
    pub fn role(&self, deployment: usize, server: usize) -> Role {
        match self.deployments[deployment].role {
            Role::Seals if server < self.readers => Role::Opens,
            role => role,
        }
    }

    /// Returns the scope whose keys a caller of this one has.
    pub fn scope(&self, scope: u8) -> u8 {
        if self.has_scopes { scope } else { 0 }
    }

    /// Returns the number of a server's current key at a time.
    pub fn current(&self, server: usize, at: Duration) -> usize {
        self.rotations.iter().rposition(|rotation| rotation.current[server] <= at).map_or(0, |place| place + 1)
    }

    /// Returns whether a server knows a key at a time.
    pub fn is_known(&self, number: usize, server: usize, at: Duration) -> bool {
        match number.checked_sub(1) {
            None => true,
            Some(rotation) => self.rotations.get(rotation).is_some_and(|rotation| rotation.known[server] <= at),
        }
    }

    /// Returns the destruction of a key, if there is one.
    pub fn destroyed(&self, scope: u8, number: usize) -> impl Iterator<Item = &Destruction> {
        self.destructions.iter().filter(move |it| (self.scope(it.scope), it.number) == (scope, number))
    }
}

impl Absence {
    /// Returns whether it is one at a server.
    pub fn is_at(&self, server: usize) -> bool {
        self.server.is_none_or(|its| its == server)
    }
}

/// Draws when each server learns of something that begins at this time.
fn spread(random: &mut Random, from: Duration, servers: usize) -> Vec<Duration> {
    let apart = random.duration(Duration::from_millis(1)..=APART);
    (0..servers).map(|_| from + random.duration(Duration::from_micros(1)..=apart)).collect()
}

/// Draws a time: any one, or just after one of these.
fn aim(random: &mut Random, begun: &[Duration]) -> Duration {
    if begun.is_empty() || random.once_in(2) {
        return LENGTH.mul_f64(random.number(0..=1_000) as f64 / 1_000.0);
    }
    *random.one_of(begun) + random.duration(Duration::from_micros(100)..=Duration::from_secs(1))
}
