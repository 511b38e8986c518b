//! Plans all faults and their times before the first call.

use std::time::Duration;

use clap::ValueEnum;
use rand::{Rng, RngExt as _, seq::SliceRandom as _};
use tcp_proxy::{Cut, Direction, Moment};

use crate::{
    args::Args,
    choice::Topology,
    fault::{BouncerFault, Family, FaultKind, FaultSet},
    mode::Mode,
    seed::{Seed, Subject},
    step::Step,
};

use FaultKind as Kind;

/// The plan of a family of faults.
struct Row {
    family: Family,
    /// The average number of operations per fault. There are enough faults for every operation to be near one, and few enough for something
    /// to work most of the time.
    gap: u32,
    least: u32,
    /// How long a fault holds on, in milliseconds: from, and to.
    hold: [u64; 2],
    /// They take turns, in a random order.
    kinds: Vec<FaultKind>,
}

/// The hold of faults that happen at a moment.
const MOMENT: [u64; 2] = [0, 1];

fn rows() -> [Row; 13] {
    fn each<T: ValueEnum>(kind: fn(T) -> FaultKind) -> Vec<FaultKind> {
        T::value_variants().iter().cloned().map(kind).collect()
    }
    let row = |family, gap, least, hold, kinds: Vec<FaultKind>| Row { family, gap, least, hold, kinds };
    // At these steps a paused server does the most harm: with rows in an open transaction, and between the effect and its record.
    let pauses = [Step::HandlerWrote, Step::BeforeSettle].map(Kind::ServerPausedAt);
    [
        row(Family::BouncerKill, 100, 5, [500, 3000], each(Kind::Bouncer)),
        row(Family::CommitCut, 75, 2, MOMENT, vec![Kind::AfterCommitCut, Kind::BeforeCommitCut]),
        row(Family::ConnectionCut, 25, 3, MOMENT, vec![Kind::ConnectionCut]),
        row(Family::ConnectionsCut, 150, 1, MOMENT, vec![Kind::ConnectionsCut]),
        row(Family::DatabaseKill, 200, 1, [0, 500], vec![Kind::DatabaseKilled]),
        row(Family::Failover, 125, 5, MOMENT, each(Kind::Primary)),
        row(Family::Mover, 100, 8, MOMENT, each(Kind::Mover)),
        row(Family::Redis, 125, 5, MOMENT, each(Kind::Redis)),
        row(Family::ServerKill, 150, 1, [0, 100], vec![Kind::ServerKilled]),
        row(Family::Silence, 400, 2, [500, 3000], vec![Kind::ConnectionsLate, Kind::ConnectionsSilenced]),
        row(Family::Stall, 200, 1, [300, 3000], vec![Kind::DatabaseStalled]),
        row(Family::StepKill, 16, 7, MOMENT, each(Kind::ServerKilledAt)),
        row(Family::Zombie, 150, 2, MOMENT, pauses.to_vec()),
    ]
}

/// A fault that is going to happen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedFault {
    /// The number of begun operations after which it is due.
    pub(crate) at: u32,
    pub(crate) kind: FaultKind,
    /// The server, if it is a fault of the connections of one.
    pub(crate) slot: usize,
    pub(crate) hold: Duration,
    /// A random number, from which the rest of it follows.
    pub(crate) draw: u32,
}

impl PlannedFault {
    /// The cut, if the fault cuts a connection.
    pub(crate) fn cut(&self) -> Option<Cut> {
        let direction = if self.draw.is_multiple_of(2) { Direction::Answers } else { Direction::Requests };
        // A claim or a completion is about 300 bytes each way.
        let bytes = Moment::Bytes { direction, left: self.draw as usize / 2 % 1500 };
        let (all, moment) = match self.kind {
            Kind::AfterCommitCut | Kind::Bouncer(BouncerFault::AfterCommit) => (false, Moment::AfterCommit),
            Kind::BeforeCommitCut | Kind::Bouncer(BouncerFault::BeforeCommit) => (false, Moment::BeforeCommit),
            Kind::ConnectionCut => (false, bytes),
            Kind::ConnectionsCut => (true, bytes),
            _ => return None,
        };
        Some(Cut { all, moment })
    }

    /// The number of times that a step is passed before it happens there.
    pub(crate) fn nth(&self) -> u32 {
        1 + self.draw % 4
    }
}

/// All faults of a run, in the order of their times.
pub(crate) fn schedule(seed: Seed, args: &Args, mode: Mode) -> Vec<PlannedFault> {
    let Args { operations, servers, faults, .. } = args;
    let mut schedule = Vec::new();
    for Row { family, hold: [from, to], mut kinds, .. } in rows() {
        kinds.retain(|kind| happens(*kind, args, mode));
        if kinds.is_empty() {
            continue;
        }
        let mut rng = seed.rng(Subject::Faults(family));
        let mut left = Vec::new();
        let count = count(family, *operations, faults);
        for number in 0..count {
            if left.is_empty() {
                left.clone_from(&kinds);
                left.shuffle(&mut rng);
            }
            let Some(kind) = left.pop() else { continue };
            let mut hold = rng.random_range(from..to);
            // One stall in ten, and one kill in five, is longer than the store's timeout.
            let is_long = match kind {
                Kind::DatabaseStalled => rng.random_ratio(1, 10),
                Kind::DatabaseKilled => number % 5 == 4,
                _ => false,
            };
            if is_long {
                hold = rng.random_range(5500..7000);
            }
            schedule.push(PlannedFault {
                at: position(&mut rng, *operations, number, count),
                kind,
                slot: rng.random_range(0..*servers as usize),
                hold: Duration::from_millis(hold),
                draw: rng.random(),
            });
        }
    }
    schedule.sort_by_key(|fault| fault.at);
    schedule
}

/// Whether a fault can happen in a run.
fn happens(kind: FaultKind, args: &Args, mode: Mode) -> bool {
    match kind {
        Kind::Bouncer(_) => args.topology == Topology::Pgbouncer,
        Kind::DatabaseKilled => args.topology != Topology::Patroni,
        Kind::Mover(_) => args.moving,
        Kind::Primary(_) => args.topology == Topology::Patroni,
        Kind::Redis(_) => args.topology == Topology::RedisCluster,
        Kind::ServerKilledAt(step) => step.is_of(mode),
        _ => true,
    }
}

/// The number of faults of a family.
fn count(family: Family, operations: u32, faults: &FaultSet) -> u32 {
    let row = rows().into_iter().find(|row| row.family == family).filter(|_| faults.0.contains(&family));
    row.map_or(0, |row| (operations / row.gap).max(row.least))
}

/// The time of fault `number` of `count`: a random point in its own equal share of the run. The very end of the run is
/// left out, because no calls would meet the fault there.
fn position(rng: &mut impl Rng, operations: u32, number: u32, count: u32) -> u32 {
    let share = f64::from(operations) * 0.95 / f64::from(count);
    let at = share * (f64::from(number) + rng.random::<f64>());
    // The value is in range, and not negative.
    (at as u32).min(operations)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::Parser as _;

    use super::*;

    fn faults(seed: u64, flags: &[&str]) -> Vec<PlannedFault> {
        schedule(Seed(seed), &Args::parse_from([&["chaos"], flags].concat()), Mode::Reserved)
    }

    #[test]
    fn plans_the_same_faults_for_the_same_seed_and_not_for_another() {
        let of = |seed| faults(seed, &["--operations", "1000"]);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn plans_every_kind_even_in_a_short_run() {
        let topologies = ["single", "pgbouncer", "patroni", "redis-cluster"];
        let flags = topologies.map(|topology| vec!["--operations", "100", "--topology", topology]);
        let moving = vec!["--operations", "100", "--moving"];
        let faults: Vec<_> = flags.iter().chain([&moving]).flat_map(|flags| faults(1, flags)).collect();
        assert!(faults.iter().all(|fault| fault.at <= 95));
        let planned: HashSet<_> = faults.iter().map(|fault| fault.kind).collect();
        for kind in rows().into_iter().flat_map(|row| row.kinds) {
            assert!(planned.contains(&kind), "{kind}");
        }
    }

    #[test]
    fn does_not_change_a_family_when_others_are_disabled() {
        let kills = |set| -> Vec<u32> {
            let faults = faults(1, &["--operations", "2000", "--faults", set]).into_iter();
            faults.filter(|fault| fault.kind == Kind::DatabaseKilled).map(|fault| fault.at).collect()
        };
        assert_eq!(kills("all"), kills("database-kill"));
        assert_eq!(kills("all").len(), 10);
        assert!(faults(1, &["--operations", "2000", "--faults", "none"]).is_empty());
    }

    #[test]
    fn has_transactional_kills_at_the_steps_of_that_mode_alone() {
        let args = Args::parse_from(["chaos", "--operations", "100"]);
        let planned = schedule(Seed(1), &args, Mode::Transactional);
        assert!(planned.iter().all(|fault| fault.kind != Kind::ServerKilledAt(Step::HandlerCommitted)));
    }
}
