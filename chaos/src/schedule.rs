//! Plans all faults and their times before the first call.

use std::{ops::Range, time::Duration};

use rand::{Rng, RngExt as _, rngs::ChaCha8Rng, seq::SliceRandom as _};
use tcp_proxy::{Cut, Direction, Moment};

use crate::{
    fault::{Family, FaultSet},
    operation::{Operation, User},
    seed::{Seed, Subject},
    step::Step,
    topology::{Failover, RedisFault, Topology},
};

/// For each family: the average number of operations per fault, and the least number of faults. There are enough faults
/// for every operation to be near one, and few enough for something to work most of the time.
const RATES: [(Family, u32, u32); 20] = [
    (Family::Batch, 250, 4),
    (Family::BouncerKill, 100, 5),
    (Family::CommitCut, 75, 2),
    (Family::ConnectionCut, 25, 3),
    (Family::ConnectionsCut, 150, 1),
    (Family::DatabaseKill, 200, 1),
    (Family::Failover, 125, 5),
    (Family::Flood, 500, 1),
    (Family::FullPool, 400, 1),
    (Family::Hang, 400, 1),
    (Family::Hog, 2000, 1),
    (Family::Mover, 100, 8),
    (Family::Owner, 500, 1),
    (Family::Redis, 125, 5),
    (Family::ServerKill, 150, 1),
    (Family::Silence, 400, 2),
    (Family::SlowOutbox, 500, 2),
    (Family::Stall, 200, 1),
    (Family::StepKill, 16, 7),
    (Family::Zombie, 150, 1),
];

/// The steps at which a paused server does the most harm: with rows in an open transaction, and between the effect and
/// its record.
const PAUSES: [Step; 2] = [Step::HandlerWrote, Step::BeforeSettle];

/// The sides of a COMMIT on which a connection is cut.
const COMMITS: [Moment; 2] = [Moment::AfterCommit, Moment::BeforeCommit];

/// The ways to break PgBouncer's connections. `None`: one of them, on either side of a COMMIT.
const BREAKS: [Option<Break>; 5] = [None, None, Some(Break::Cut), Some(Break::Silence), Some(Break::Terminate)];

/// The ways to replace a primary.
const FAILOVERS: [Failover; 5] =
    [Failover::CutOff, Failover::Hang, Failover::Kill, Failover::Lag, Failover::Switchover];

/// The number of slots of a Redis Cluster.
const SLOTS: u16 = 16384;

/// The ways to break a primary of the Redis Cluster.
const REDIS: [RedisFault; 5] =
    [RedisFault::Hang, RedisFault::Kill, RedisFault::Lag, RedisFault::Restart, RedisFault::Switchover];

/// The ways to disturb the move to partitions, and whether they wait for its switch.
const MOVERS: [(MoverFault, bool); 8] = [
    (MoverFault::Another, false),
    (MoverFault::Kill, false),
    (MoverFault::Kill, true),
    (MoverFault::Kill, true),
    (MoverFault::Restart, false),
    (MoverFault::Restart, true),
    (MoverFault::Stop, false),
    (MoverFault::Stop, true),
];

/// The ways to make the outbox slow.
const SLOWNESS: [Slowness; 2] = [Slowness::Asleep, Slowness::Locked];

/// The troubles of a statement that several calls share.
const TROUBLES: [Trouble; 4] = [Trouble::CutAfter, Trouble::CutBefore, Trouble::Locked, Trouble::Refused];

/// The number of calls that are made at once, so that they share statements.
const CROWD: u32 = 48;

/// The number of calls of a flood.
const FLOOD: u32 = 100;

/// The number of a hog's calls: enough for its time, when as many run at once as there are connections.
const HOG: u32 = 96;

/// How slow a hog's handlers are: not as slow as the shortest lease, after which a transaction may be ended.
const HOG_DELAY: Duration = Duration::from_millis(1500);

/// A fault, and the number of begun operations after which it is due.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) at: u32,
    pub(crate) fault: Planned,
}

/// A planned fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Planned {
    /// These operations are called at once, and retried, while something happens to a statement that they share.
    Batch {
        how: Trouble,
        operations: Range<u32>,
    },
    /// PgBouncer's connections are broken; silent ones stay so for this long.
    Bouncer {
        how: Break,
        hold: Duration,
    },
    /// PgBouncer's connection that carries the next COMMIT is cut.
    BouncerCut {
        moment: Moment,
    },
    /// A connection between a server and the database is cut.
    Cut {
        slot: usize,
        cut: Cut,
    },
    /// Keeps the database down for this long.
    DatabaseKill {
        down: Duration,
    },
    /// The primary is replaced.
    Failover {
        how: Failover,
    },
    /// These operations are called at once by clients that hang up.
    Flood {
        operations: Range<u32>,
    },
    /// Locks the table of keys for this long.
    FullPool {
        hold: Duration,
    },
    /// COMMITs are not answered for this long.
    Hang {
        hold: Duration,
    },
    /// One user makes calls of these slow operations, but the last one, which is another user's.
    Hog {
        operations: Range<u32>,
    },
    /// The move to partitions is disturbed, at its next switch or at once.
    Mover {
        how: MoverFault,
        at_switch: bool,
    },
    /// The table and its functions have an owner for this long for whom nothing was set up.
    Owner {
        hold: Duration,
    },
    /// The primary of this slot is broken.
    Redis {
        slot: u16,
        how: RedisFault,
    },
    Server(Order),
    /// The connections between a server and the database are silent for this long. Then what was sent arrives, or they are cut.
    Silence {
        slot: usize,
        hold: Duration,
        arrives: bool,
    },
    SlowOutbox {
        how: Slowness,
        hold: Duration,
    },
    Stall {
        slot: usize,
        stall: Stall,
    },
}

impl Planned {
    pub(crate) fn can_happen_to(&self, topology: Topology) -> bool {
        match self {
            Self::Bouncer { .. } | Self::BouncerCut { .. } => topology == Topology::Pgbouncer,
            // Patroni sets the standbys that COMMITs wait for.
            Self::DatabaseKill { .. } | Self::Hang { .. } => topology != Topology::Patroni,
            Self::Failover { .. } => topology == Topology::Patroni,
            Self::Redis { .. } => topology == Topology::RedisCluster,
            // The table of the keys is not used.
            Self::Batch { .. } | Self::FullPool { .. } | Self::Owner { .. } => topology != Topology::RedisCluster,
            _ => true,
        }
    }

    /// Whether it concerns statements that several calls share.
    pub(crate) fn needs_batches(&self) -> bool {
        matches!(self, Self::Batch { .. })
    }

    /// Whether it concerns the move to partitions.
    pub(crate) fn needs_move(&self) -> bool {
        matches!(self, Self::Mover { .. })
    }

    /// Whether it would be in the way of the move to partitions, whose mover is the owner.
    pub(crate) fn hinders_move(&self) -> bool {
        matches!(self, Self::Owner { .. })
    }

    /// Whether it concerns the rows of reservations, as there are in reserved mode alone.
    pub(crate) fn needs_reservations(&self) -> bool {
        matches!(self, Self::Batch { how: Trouble::Locked, .. })
    }
}

/// The fault of a statement that several calls share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Trouble {
    /// Its connection is cut when it has been carried out.
    CutAfter,
    /// Its connection is cut before it arrives.
    CutBefore,
    /// Another transaction, of a foreign client, has inserted one of its keys, and does not end.
    Locked,
    /// The table takes no row with one of its keys.
    Refused,
}

/// A way to break PgBouncer's connections to the database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Break {
    /// All are cut.
    Cut,
    /// All are silent for a while, and then cut.
    Silence,
    /// The database ends all sessions.
    Terminate,
}

/// A way to disturb the move to partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// A way to make the outbox slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Slowness {
    /// The look-up of a status takes long.
    Asleep,
    /// The table is locked.
    Locked,
}

/// A period in which the connections between a server and the database are unusable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stall {
    pub(crate) hold: Duration,
    pub(crate) manner: Manner,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    /// Nothing passes.
    Held,
    /// Nothing passes; then the connections are cut.
    HeldAndCut,
    /// Everything passes, each answer delayed by this much.
    Late(Duration),
}

/// A fault of a server; the first free server takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// The server kills itself when it passes the step for the `nth` time.
    DieAt { step: Step, nth: u32 },
    /// The harness kills the server after this long.
    Kill { after: Duration },
    /// The server stops itself when it passes the step for the `nth` time, and goes on after its leases have ended.
    /// `partitioned`: its connections to the database are cut in the meantime, so that the database ends its sessions.
    PauseAt { step: Step, nth: u32, partitioned: bool },
}

/// All faults of a run, in the order of their times.
pub(crate) fn schedule(seed: Seed, operations: u32, servers: u32, faults: &FaultSet, steps: &[Step]) -> Vec<Due> {
    let mut schedule = Vec::new();
    for (family, ..) in RATES {
        let mut rng = seed.rng(Subject::Faults(family));
        let count = count(family, operations, faults);
        let mut breaks = Shuffled::new(&BREAKS);
        let mut failovers = Shuffled::new(&FAILOVERS);
        let mut redis = Shuffled::new(&REDIS);
        let mut movers = Shuffled::new(&MOVERS);
        let mut troubles = Shuffled::new(&TROUBLES);
        let mut silences = Shuffled::new(&[false, true]);
        let mut slowness = Shuffled::new(&SLOWNESS);
        let mut commits = Shuffled::new(&COMMITS);
        let mut steps = Shuffled::new(steps);
        let mut pauses = Shuffled::new(&PAUSES);
        for number in 0..count {
            let at = position(&mut rng, operations, number, count);
            let slot = rng.random_range(0..servers as usize);
            let fault = match family {
                Family::Batch => Planned::Batch {
                    how: troubles.next(&mut rng),
                    operations: extra(operations + before_crowds(operations, faults), number, CROWD),
                },
                Family::BouncerKill => match breaks.next(&mut rng) {
                    Some(how) => Planned::Bouncer { how, hold: milliseconds(&mut rng, 500, 3000) },
                    None => Planned::BouncerCut { moment: commits.next(&mut rng) },
                },
                Family::CommitCut => Planned::Cut { slot, cut: Cut { all: false, moment: commits.next(&mut rng) } },
                Family::ConnectionCut => Planned::Cut { slot, cut: cut(&mut rng, false) },
                Family::ConnectionsCut => Planned::Cut { slot, cut: cut(&mut rng, true) },
                Family::DatabaseKill => Planned::DatabaseKill { down: milliseconds(&mut rng, 0, 500) },
                Family::Failover => Planned::Failover { how: failovers.next(&mut rng) },
                Family::Flood => {
                    Planned::Flood { operations: extra(operations + hogs(operations, faults) * HOG, number, FLOOD) }
                }
                Family::Hog => Planned::Hog { operations: extra(operations, number, HOG) },
                Family::Mover => {
                    let (how, at_switch) = movers.next(&mut rng);
                    Planned::Mover { how, at_switch }
                }
                Family::Redis => Planned::Redis { slot: rng.random_range(0..SLOTS), how: redis.next(&mut rng) },
                // As long as the store tries, or longer.
                Family::Hang => Planned::Hang { hold: milliseconds(&mut rng, 1000, 7000) },
                Family::Owner => Planned::Owner { hold: milliseconds(&mut rng, 500, 2000) },
                Family::Silence => {
                    let hold = milliseconds(&mut rng, 500, 3000);
                    Planned::Silence { slot, hold, arrives: silences.next(&mut rng) }
                }
                Family::SlowOutbox => {
                    Planned::SlowOutbox { how: slowness.next(&mut rng), hold: milliseconds(&mut rng, 500, 2500) }
                }
                Family::FullPool => Planned::FullPool { hold: milliseconds(&mut rng, 500, 2000) },
                Family::HangUp => continue,
                Family::ServerKill => Planned::Server(Order::Kill { after: milliseconds(&mut rng, 0, 100) }),
                Family::Stall => Planned::Stall { slot, stall: stall(&mut rng) },
                Family::StepKill => {
                    Planned::Server(Order::DieAt { step: steps.next(&mut rng), nth: rng.random_range(1..=4) })
                }
                Family::Zombie => Planned::Server(Order::PauseAt {
                    step: pauses.next(&mut rng),
                    nth: rng.random_range(1..=4),
                    partitioned: rng.random(),
                }),
            };
            schedule.push(Due { at, fault });
        }
    }
    schedule.sort_by_key(|due| due.at);
    schedule
}

/// The operations that faults need, besides the clients', in the order in which the faults number them.
pub(crate) fn extras(seed: Seed, operations: u32, faults: &FaultSet) -> Vec<Operation> {
    let hogs = operations..operations + hogs(operations, faults) * HOG;
    let floods = hogs.end..operations + before_crowds(operations, faults);
    let crowds = floods.end..floods.end + count(Family::Batch, operations, faults) * CROWD;
    let of_hog = |number: u32| {
        let user = if ((number - operations) / HOG).is_multiple_of(2) { User::Alice } else { User::Bob };
        let operation = Operation::new(seed, number, faults);
        if (number - operations) % HOG == HOG - 1 {
            operation.slow(user.other(), Duration::ZERO)
        } else {
            operation.slow(user, HOG_DELAY)
        }
    };
    let of_hogs = hogs.map(of_hog);
    of_hogs.chain((floods.start..crowds.end).map(|number| Operation::new(seed, number, faults))).collect()
}

/// The number of operations of hogs and floods, which come before those of crowds.
fn before_crowds(operations: u32, faults: &FaultSet) -> u32 {
    hogs(operations, faults) * HOG + count(Family::Flood, operations, faults) * FLOOD
}

/// The operations of fault `number`, if each has `size` and the first begin at `start`.
fn extra(start: u32, number: u32, size: u32) -> Range<u32> {
    let begin = start + number * size;
    begin..begin + size
}

fn hogs(operations: u32, faults: &FaultSet) -> u32 {
    count(Family::Hog, operations, faults)
}

/// The number of faults of a family.
fn count(family: Family, operations: u32, faults: &FaultSet) -> u32 {
    let rate = RATES.iter().find(|(other, ..)| *other == family).filter(|_| faults.has(family));
    rate.map_or(0, |(_, gap, least)| (operations / gap).max(*least))
}

/// The time of fault `number` of `count`: a random point in its own equal share of the run. The very end of the run is
/// left out, because no calls would meet the fault there.
fn position(rng: &mut impl Rng, operations: u32, number: u32, count: u32) -> u32 {
    let share = f64::from(operations) * 0.95 / f64::from(count);
    let at = share * (f64::from(number) + rng.random::<f64>());
    // The value is in range, and not negative.
    (at as u32).min(operations)
}

fn cut(rng: &mut impl Rng, all: bool) -> Cut {
    let direction = if rng.random() { Direction::Answers } else { Direction::Requests };
    // A claim or a completion is about 300 bytes each way.
    Cut { all, moment: Moment::Bytes { direction, left: rng.random_range(0..1500) } }
}

fn stall(rng: &mut impl Rng) -> Stall {
    let manner = match rng.random_range(0..3) {
        0 => Manner::Held,
        1 => Manner::HeldAndCut,
        _ => Manner::Late(milliseconds(rng, 50, 400)),
    };
    // One in ten is longer than the store's timeout.
    let hold = if rng.random_ratio(1, 10) { milliseconds(rng, 5500, 7000) } else { milliseconds(rng, 300, 3000) };
    Stall { hold, manner }
}

fn milliseconds(rng: &mut impl Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from..to))
}

/// Returns each of the values once, in a random order, and then again in another order.
struct Shuffled<'a, T> {
    left: Vec<T>,
    values: &'a [T],
}

impl<'a, T: Copy> Shuffled<'a, T> {
    fn new(values: &'a [T]) -> Self {
        Self { left: Vec::new(), values }
    }

    fn next(&mut self, rng: &mut ChaCha8Rng) -> T {
        loop {
            if let Some(value) = self.left.pop() {
                return value;
            }
            self.left = self.values.to_vec();
            self.left.shuffle(rng);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::mode::Mode;

    fn faults(seed: u64, operations: u32, faults: &str) -> Vec<Due> {
        schedule(Seed(seed), operations, 3, &faults.parse().expect("a set"), &Step::of(Mode::Reserved))
    }

    #[test]
    fn plans_the_same_faults_for_the_same_seed_and_not_for_another() {
        let of = |seed| faults(seed, 1000, "all").into_iter().map(|due| (due.at, due.fault)).collect::<Vec<_>>();
        assert!(of(1) == of(1));
        assert!(of(1) != of(2));
    }

    #[test]
    fn plans_every_fault_and_every_step_even_in_a_short_run() {
        let faults = faults(1, 100, "all");
        assert!(faults.iter().all(|due| due.at <= 95));
        let steps: HashSet<Step> = faults
            .iter()
            .filter_map(|due| match due.fault {
                Planned::Server(Order::DieAt { step, .. }) => Some(step),
                _ => None,
            })
            .collect();
        assert_eq!(steps.len(), Step::ALL.len());
        let cut =
            |moment| faults.iter().any(|due| matches!(due.fault, Planned::Cut { cut, .. } if cut.moment == moment));
        assert!(COMMITS.into_iter().all(cut));
        for (family, _, _) in RATES {
            assert!(faults.iter().any(|due| family_of(&due.fault) == family), "{family:?}");
        }
        let troubles = |how| faults.iter().any(|due| matches!(due.fault, Planned::Batch { how: it, .. } if it == how));
        assert!(TROUBLES.into_iter().all(troubles));
        let breaks = |how| faults.iter().any(|due| matches!(due.fault, Planned::Bouncer { how: it, .. } if it == how));
        assert!(BREAKS.into_iter().flatten().all(breaks));
        let fails_over = |how| faults.iter().any(|due| due.fault == Planned::Failover { how });
        assert!(FAILOVERS.into_iter().all(fails_over));
        let breaks = |how| faults.iter().any(|due| matches!(due.fault, Planned::Redis { how: it, .. } if it == how));
        assert!(REDIS.into_iter().all(breaks));
        let disturbs = |(how, at_switch)| faults.iter().any(|due| due.fault == Planned::Mover { how, at_switch });
        assert!(MOVERS.into_iter().all(disturbs));
        let ends =
            |late| faults.iter().any(|due| matches!(due.fault, Planned::Silence { arrives, .. } if arrives == late));
        assert!([false, true].into_iter().all(ends));
        let cut = |moment| faults.iter().any(|due| due.fault == Planned::BouncerCut { moment });
        assert!(COMMITS.into_iter().all(cut));
    }

    #[test]
    fn gives_each_hog_flood_and_crowd_operations_of_their_own() {
        let set = "hog,flood,batch".parse().expect("a set");
        let extras = extras(Seed(1), 5000, &set);
        let mut numbers: Vec<u32> = (0..5000).collect();
        for due in schedule(Seed(1), 5000, 3, &set, &[]) {
            match due.fault {
                Planned::Hog { operations } => {
                    let of = |number: u32| &extras[number as usize - 5000];
                    let (hog, other) = (of(operations.start), of(operations.end - 1));
                    assert!(hog.user == other.user.other() && other.habits.handler_delay.is_zero());
                    assert!(operations.clone().rev().skip(1).all(|number| of(number).user == hog.user));
                    assert!(hog.habits.handler_delay == HOG_DELAY);
                    numbers.extend(operations);
                }
                Planned::Batch { operations, .. } | Planned::Flood { operations } => numbers.extend(operations),
                other => panic!("{other:?}"),
            }
        }
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..5000 + 2 * HOG + 10 * FLOOD + 20 * CROWD));
        assert!(extras.iter().map(|operation| operation.number).eq(5000..5000 + 2 * HOG + 10 * FLOOD + 20 * CROWD));
        assert!(super::extras(Seed(1), 5000, &"none".parse().expect("a set")).is_empty());
    }

    #[test]
    fn does_not_change_a_family_when_others_are_disabled() {
        let kills = |set| -> Vec<u32> {
            let kills = faults(1, 2000, set).into_iter().filter(|due| family_of(&due.fault) == Family::DatabaseKill);
            kills.map(|due| due.at).collect()
        };
        assert_eq!(kills("all"), kills("database-kill"));
        assert_eq!(kills("all").len(), 10);
        assert!(faults(1, 2000, "none").is_empty());
    }

    fn family_of(fault: &Planned) -> Family {
        match fault {
            Planned::Batch { .. } => Family::Batch,
            Planned::Bouncer { .. } | Planned::BouncerCut { .. } => Family::BouncerKill,
            Planned::Flood { .. } => Family::Flood,
            Planned::Hang { .. } => Family::Hang,
            Planned::Hog { .. } => Family::Hog,
            Planned::Mover { .. } => Family::Mover,
            Planned::Owner { .. } => Family::Owner,
            Planned::Silence { .. } => Family::Silence,
            Planned::SlowOutbox { .. } => Family::SlowOutbox,
            Planned::Cut { cut: Cut { all: true, .. }, .. } => Family::ConnectionsCut,
            Planned::Cut { cut: Cut { moment: Moment::Bytes { .. }, .. }, .. } => Family::ConnectionCut,
            Planned::Cut { .. } => Family::CommitCut,
            Planned::DatabaseKill { .. } => Family::DatabaseKill,
            Planned::Failover { .. } => Family::Failover,
            Planned::FullPool { .. } => Family::FullPool,
            Planned::Redis { .. } => Family::Redis,
            Planned::Server(Order::DieAt { .. }) => Family::StepKill,
            Planned::Server(Order::Kill { .. }) => Family::ServerKill,
            Planned::Server(Order::PauseAt { .. }) => Family::Zombie,
            Planned::Stall { .. } => Family::Stall,
        }
    }
}
