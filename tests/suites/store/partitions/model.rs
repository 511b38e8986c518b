//! A model of the move, while transactions change a row of the table. A model checker, `stateright`, explores all of its states.
//!
//! A trigger mirrors each change in the new table, the copier copies what has not changed since, and then the names are switched
//! (`migrations/packs/partitions.sql`). Transactions see what is committed (READ COMMITTED), or what was when they began (REPEATABLE
//! READ); they commit or roll back at any time, and begin before, during and after the move, which may be taken back and begun again.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

/// The guards of the move. Each is left out once, and the checker then finds a row that is lost or left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The copier locks a row from its read until its copy is committed (FOR SHARE).
    CopyLocksRow,
    /// A locked row, which is passed over, is copied when it is free.
    CopyReturnsToLocked,
    /// A deletion replaces the copy before it deletes it: so that a transaction that cannot see the copy fails.
    DeleteReplacesCopy,
    /// The trigger is made under a lock that waits for all transactions that have changed the table.
    MirrorWaitsForTransactions,
    /// The progress is that of a new table, and goes with it when the move is taken back.
    ProgressIsOfTable,
}

const GUARDS: [Guard; 5] = [
    Guard::CopyLocksRow,
    Guard::CopyReturnsToLocked,
    Guard::DeleteReplacesCopy,
    Guard::MirrorWaitsForTransactions,
    Guard::ProgressIsOfTable,
];

/// A row of the key, with the number of the transaction that has written it; `None` if there is none.
type Row = Option<u8>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// The committed row of each table.
    old: Row,
    next: Row,
    /// The row that calls have to see: the last that was committed, in either table.
    truth: Row,
    /// The holder of the lock on the row of the old table.
    lock: Option<Holder>,
    phase: Phase,
    copier: Copier,
    /// Whether the move was taken back once.
    stopped: bool,
    transactions: Vec<Transaction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Copier,
    Transaction(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Plain,
    Mirroring,
    Switched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Copier {
    /// Has not come to the row.
    Before,
    /// Has passed over the row.
    PassedOver,
    /// Has read this row.
    Read(u8),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Transaction {
    /// One snapshot for all of it.
    repeatable: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Before,
    /// With what it has seen of both tables.
    Open {
        old: Row,
        next: Row,
    },
    /// With the rows that its commit leaves; `None` for a table that it has not changed.
    Changed {
        old: Option<Row>,
        next: Option<Row>,
    },
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Begin(usize),
    /// Writes the row, or deletes it.
    Change(usize, Row),
    Commit(usize),
    RollBack(usize),
    Mirror,
    Read,
    Copy,
    /// The move is taken back: the new table and the trigger are dropped.
    Stop,
    Switch,
}

struct Moving {
    left_out: Option<Guard>,
}

impl Moving {
    fn holds(&self, guard: Guard) -> bool {
        self.left_out != Some(guard)
    }

    /// Changes the row in a table, as a transaction that has seen the row `seen`. `Err` if a change that it has not seen fails it.
    fn write(repeatable: bool, seen: Row, committed: Row, row: Row) -> Result<Row, ()> {
        if repeatable && committed.is_some() && seen != committed || repeatable && seen.is_some() && committed.is_none()
        {
            return Err(());
        }
        Ok(row)
    }

    /// The mirror's change of the new table.
    fn mirror(&self, transaction: Transaction, seen: Row, committed: Row, row: Row) -> Result<Row, ()> {
        if row.is_none() && !self.holds(Guard::DeleteReplacesCopy) && transaction.repeatable && seen.is_none() {
            // A DELETE that sees no row changes nothing.
            return Ok(committed);
        }
        Self::write(transaction.repeatable, seen, committed, row)
    }
}

impl Model for Moving {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let levels = (0..8).map(|bits: u8| (0..3).map(move |bit| bits & (1 << bit) != 0));
        let with = |old: Row, levels: &mut dyn Iterator<Item = bool>| World {
            old,
            next: None,
            truth: old,
            lock: None,
            phase: Phase::Plain,
            copier: Copier::Before,
            stopped: false,
            transactions: levels.map(|repeatable| Transaction { repeatable, stage: Stage::Before }).collect(),
        };
        levels.flat_map(|levels| [with(None, &mut levels.clone()), with(Some(0), &mut levels.clone())]).collect()
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for (id, transaction) in world.transactions.iter().enumerate() {
            match transaction.stage {
                Stage::Before => steps.push(Step::Begin(id)),
                Stage::Open { .. } if world.lock.is_none() => {
                    let own = u8::try_from(id + 1).expect("few transactions");
                    steps.extend([Step::Change(id, Some(own)), Step::Change(id, None)]);
                }
                Stage::Open { .. } | Stage::Ended => {}
                Stage::Changed { .. } => steps.extend([Step::Commit(id), Step::RollBack(id)]),
            }
        }
        let changed = |transaction: &Transaction| matches!(transaction.stage, Stage::Changed { .. });
        let waits = world.transactions.iter().any(changed);
        match (world.phase, world.copier) {
            (Phase::Plain, _) if !waits || !self.holds(Guard::MirrorWaitsForTransactions) => steps.push(Step::Mirror),
            (Phase::Mirroring, Copier::Before) => steps.push(Step::Read),
            (Phase::Mirroring, Copier::PassedOver) if world.lock.is_none() => steps.push(Step::Read),
            // The unique constraint of the new table: an insertion waits for an earlier insertion of the key.
            (Phase::Mirroring, Copier::Read(_)) if !waits => steps.push(Step::Copy),
            (Phase::Mirroring, Copier::Done) if !waits => steps.push(Step::Switch),
            _ => {}
        }
        // Between two steps of the copier, under the lock of the move.
        if world.phase == Phase::Mirroring && !matches!(world.copier, Copier::Read(_)) && !waits && !world.stopped {
            steps.push(Step::Stop);
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Begin(id) => {
                world.transactions[id].stage = Stage::Open { old: world.old, next: world.next };
            }
            Step::Change(id, row) => {
                let transaction = world.transactions[id];
                let Stage::Open { old, next } = transaction.stage else { return None };
                let committed = if world.phase == Phase::Switched { world.next } else { world.old };
                if row.is_none() && committed.is_none() {
                    return None;
                }
                let changed = match world.phase {
                    Phase::Plain => {
                        Self::write(transaction.repeatable, old, world.old, row).map(|old| (Some(old), None))
                    }
                    Phase::Mirroring => Self::write(transaction.repeatable, old, world.old, row)
                        .and_then(|old| Ok((Some(old), Some(self.mirror(transaction, next, world.next, row)?)))),
                    Phase::Switched => {
                        Self::write(transaction.repeatable, next, world.next, row).map(|next| (None, Some(next)))
                    }
                };
                world.transactions[id].stage = match changed {
                    Ok((old, next)) => Stage::Changed { old, next },
                    // Refused with serialization_failure: the call is tried again, as another transaction.
                    Err(()) => Stage::Ended,
                };
                if changed.is_ok() {
                    world.lock = Some(Holder::Transaction(id));
                }
            }
            Step::Commit(id) => {
                let Stage::Changed { old, next } = world.transactions[id].stage else { return None };
                world.old = old.unwrap_or(world.old);
                world.next = next.unwrap_or(world.next);
                world.truth = old.or(next).unwrap_or(world.truth);
                end(&mut world, id);
            }
            Step::RollBack(id) => end(&mut world, id),
            Step::Mirror => world.phase = Phase::Mirroring,
            Step::Read => {
                let is_locked = world.lock.is_some() && self.holds(Guard::CopyLocksRow);
                world.copier = match world.old {
                    None => Copier::Done,
                    Some(_) if is_locked && self.holds(Guard::CopyReturnsToLocked) => Copier::PassedOver,
                    Some(_) if is_locked => Copier::Done,
                    Some(row) => {
                        if self.holds(Guard::CopyLocksRow) {
                            world.lock = Some(Holder::Copier);
                        }
                        Copier::Read(row)
                    }
                };
            }
            Step::Copy => {
                let Copier::Read(row) = world.copier else { return None };
                // A copy that is there is the mirror's, and newer.
                world.next = world.next.or(Some(row));
                world.copier = Copier::Done;
                if world.lock == Some(Holder::Copier) {
                    world.lock = None;
                }
            }
            Step::Stop => {
                (world.phase, world.next, world.stopped) = (Phase::Plain, None, true);
                // No snapshot shows a row of the next new table.
                for transaction in &mut world.transactions {
                    if let Stage::Open { next, .. } = &mut transaction.stage {
                        *next = None;
                    }
                }
                if self.holds(Guard::ProgressIsOfTable) {
                    world.copier = Copier::Before;
                }
            }
            Step::Switch => world.phase = Phase::Switched,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(KEEPS, |_, world: &World| world.phase != Phase::Switched || world.next == world.truth),
            Property::sometimes("a row is copied", |_, world: &World| {
                world.phase == Phase::Switched && world.next == Some(0)
            }),
            Property::sometimes("a row is mirrored before it is copied", |_, world: &World| {
                world.phase == Phase::Mirroring && world.copier == Copier::Before && world.next.is_some()
            }),
            Property::sometimes("a row is copied again, after the move was taken back", |_, world: &World| {
                world.phase == Phase::Switched && world.stopped && world.next == Some(0)
            }),
            Property::sometimes("a transaction changes the new table", |_, world: &World| {
                let of_next = |it: &Transaction| matches!(it.stage, Stage::Changed { old: None, next: Some(_) });
                world.transactions.iter().any(of_next)
            }),
        ]
    }
}

/// The promise: from the switch on, the new table has what was committed last, and nothing else.
const KEEPS: &str = "the new table has the row that was committed last";

fn end(world: &mut World, id: usize) {
    world.transactions[id].stage = Stage::Ended;
    world.lock = None;
}

#[test]
fn keeps_every_row_and_leaves_none_behind() {
    let checker = Moving { left_out: None }.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "only {} states", checker.unique_state_count());
}

#[test]
fn needs_each_of_its_guards() {
    for guard in GUARDS {
        let found = HasDiscoveries::AllOf(BTreeSet::from([KEEPS]));
        let checker = Moving { left_out: Some(guard) }.checker().finish_when(found).spawn_bfs().join();
        assert!(checker.discovery(KEEPS).is_some(), "nothing is violated without {guard:?}");
    }
}
