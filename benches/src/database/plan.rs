//! The plan of the measurements: which contenders, under which load, in how many rounds.

use std::time::Duration;

use super::contender::{
    BARE, Contender, FLOOR, FROM_MEMORY, GO_LEANEST, GO_LEANEST_PARSED, GO_PRODUCT, INSERT_FIRST, PRIMARY_KEY,
    RESERVED, RESERVED_ALONE, RESERVED_HERE, RESERVED_HERE_ALONE, RESERVED_PARSED, SEQUENCE, TRANSACTIONAL,
    TRANSACTIONAL_ALONE, TRANSACTIONAL_PARSED,
};

/// The payloads, in bytes.
pub(super) const SMALL: usize = 100;
pub(super) const LARGE: usize = 100_000;

/// The number of concurrent callers at which most goals are measured.
pub(super) const SEVERAL: usize = 16;
pub(super) const MANY: usize = 64;

/// The rounds of a row that has goals.
const FOR_GOALS: usize = 7;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    First,
    Replay,
}

/// Contenders that take turns under the same load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) call: Call,
    pub(super) concurrency: usize,
    pub(super) payload: usize,
    pub(super) contenders: &'static [Contender],
    pub(super) rounds: usize,
    /// The time of one turn.
    pub(super) turn: Duration,
}

/// The contenders whose round trips and log bytes are counted.
pub(super) const COUNTED: [(Call, &[Contender]); 2] = [(Call::First, AT_16), (Call::Replay, AGAIN)];

/// The rows next door, for the whole report.
pub(super) const ROWS: [Row; 12] = [
    row(Call::First, 1, SMALL, ALONE),
    row(Call::First, SEVERAL, SMALL, AT_16),
    row(Call::First, MANY, SMALL, FIRST),
    shorter(row(Call::First, 1, LARGE, FIRST_LARGE)),
    row(Call::First, SEVERAL, LARGE, FIRST_LARGE),
    shorter(row(Call::First, MANY, LARGE, FIRST_LARGE)),
    row(Call::Replay, 1, SMALL, AGAIN),
    row(Call::Replay, SEVERAL, SMALL, AGAIN),
    row(Call::Replay, MANY, SMALL, AGAIN),
    shorter(row(Call::Replay, 1, LARGE, AGAIN_LARGE)),
    shorter(row(Call::Replay, SEVERAL, LARGE, AGAIN_LARGE)),
    shorter(row(Call::Replay, MANY, LARGE, AGAIN_LARGE)),
];

/// The rows next door that have goals, with the contenders that goals compare.
pub(super) const GOALS: [Row; 7] = [
    row(
        Call::First,
        1,
        SMALL,
        &[GO_LEANEST, RESERVED, RESERVED_ALONE, RESERVED_HERE, RESERVED_HERE_ALONE, TRANSACTIONAL, TRANSACTIONAL_ALONE],
    ),
    row(Call::First, SEVERAL, SMALL, &[BARE, FLOOR, INSERT_FIRST, SEQUENCE, GO_LEANEST, RESERVED, TRANSACTIONAL]),
    row(Call::First, MANY, SMALL, &[GO_LEANEST, RESERVED, TRANSACTIONAL]),
    row(Call::First, SEVERAL, LARGE, &[BARE, TRANSACTIONAL]),
    row(Call::Replay, 1, SMALL, &[PRIMARY_KEY, GO_LEANEST, RESERVED]),
    row(Call::Replay, SEVERAL, SMALL, &[PRIMARY_KEY, GO_LEANEST, RESERVED, TRANSACTIONAL]),
    row(Call::Replay, MANY, SMALL, &[PRIMARY_KEY, GO_LEANEST, RESERVED, TRANSACTIONAL]),
];

/// The rows without HTTP/2, which leaves the handler, the layer and the database.
pub(super) const IN_PROCESS: [Row; 2] =
    [shorter(row(Call::First, SEVERAL, SMALL, FIRST)), shorter(row(Call::Replay, SEVERAL, SMALL, AGAIN))];

/// The rows with a slower network.
pub(super) const DISTANT: [Row; 4] = [
    longer(row(Call::First, 1, SMALL, FIRST)),
    row(Call::First, SEVERAL, SMALL, FIRST),
    row(Call::Replay, 1, SMALL, AGAIN_FAR),
    row(Call::Replay, SEVERAL, SMALL, AGAIN_FAR),
];

const FIRST: &[Contender] = &[
    BARE,
    FLOOR,
    INSERT_FIRST,
    SEQUENCE,
    GO_LEANEST,
    GO_PRODUCT,
    RESERVED,
    RESERVED_ALONE,
    RESERVED_HERE,
    TRANSACTIONAL,
    TRANSACTIONAL_ALONE,
];

const AT_16: &[Contender] = &[
    BARE,
    FLOOR,
    INSERT_FIRST,
    SEQUENCE,
    GO_LEANEST,
    GO_LEANEST_PARSED,
    GO_PRODUCT,
    RESERVED,
    RESERVED_PARSED,
    RESERVED_ALONE,
    RESERVED_HERE,
    TRANSACTIONAL,
    TRANSACTIONAL_PARSED,
    TRANSACTIONAL_ALONE,
];

const ALONE: &[Contender] = &[
    BARE,
    FLOOR,
    INSERT_FIRST,
    SEQUENCE,
    GO_LEANEST,
    GO_PRODUCT,
    RESERVED,
    RESERVED_ALONE,
    RESERVED_HERE,
    RESERVED_HERE_ALONE,
    TRANSACTIONAL,
    TRANSACTIONAL_ALONE,
];

const FIRST_LARGE: &[Contender] = &[BARE, GO_LEANEST, RESERVED, TRANSACTIONAL];

const AGAIN: &[Contender] =
    &[PRIMARY_KEY, GO_LEANEST, GO_PRODUCT, RESERVED, RESERVED_ALONE, TRANSACTIONAL, TRANSACTIONAL_ALONE, FROM_MEMORY];

const AGAIN_LARGE: &[Contender] = &[PRIMARY_KEY, GO_LEANEST, RESERVED, TRANSACTIONAL, FROM_MEMORY];

const AGAIN_FAR: &[Contender] = &[PRIMARY_KEY, GO_LEANEST, RESERVED, RESERVED_ALONE, TRANSACTIONAL, FROM_MEMORY];

const fn row(call: Call, concurrency: usize, payload: usize, contenders: &'static [Contender]) -> Row {
    Row { call, concurrency, payload, contenders, rounds: FOR_GOALS, turn: Duration::from_millis(400) }
}

const fn shorter(row: Row) -> Row {
    Row { rounds: 3, ..row }
}

const fn longer(row: Row) -> Row {
    Row { turn: Duration::from_millis(700), ..row }
}

impl Call {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::First => "first call",
            Self::Replay => "replay",
        }
    }

    /// Returns what its throughput is compared with.
    pub(super) fn base(self) -> Contender {
        match self {
            Self::First => BARE,
            Self::Replay => PRIMARY_KEY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_for_goals_is_part_of_a_row_of_the_report() {
        for goal in GOALS {
            let row = ROWS
                .iter()
                .find(|row| (row.call, row.concurrency, row.payload) == (goal.call, goal.concurrency, goal.payload));
            let row = row.expect("a row of the report");
            assert!(row.rounds >= 7 && goal.rounds >= 7);
            assert!(goal.contenders.iter().all(|contender| row.contenders.contains(contender)), "{goal:?}");
        }
    }

    #[test]
    fn contenders_of_one_row_have_different_names() {
        for row in ROWS.iter().chain(&DISTANT).chain(&IN_PROCESS).chain(&GOALS) {
            let mut names: Vec<_> = row.contenders.iter().map(|contender| contender.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), row.contenders.len());
        }
    }
}
