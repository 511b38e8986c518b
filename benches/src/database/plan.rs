//! The plan of the measurements: which contenders, under which load, in how many rounds.

use std::time::Duration;

use super::contender::{
    BARE, Contender, FLOOR, FROM_MEMORY, GO_LEANEST, INSERT_FIRST, PRIMARY_KEY, RESERVED, RESERVED_ALONE,
    RESERVED_HERE, RESERVED_HERE_ALONE, RESERVED_PARSED, SEQUENCE, TRANSACTIONAL, TRANSACTIONAL_ALONE,
    TRANSACTIONAL_PARSED,
};

/// The payloads, in bytes.
pub(super) const SMALL: usize = 100;
pub(super) const LARGE: usize = 100_000;

/// The number of concurrent callers at which most goals are measured.
pub(super) const SEVERAL: usize = 16;
pub(super) const MANY: usize = 64;

/// The rounds of a row.
pub(super) const ROUNDS: usize = 7;

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
    /// The time of one turn.
    pub(super) turn: Duration,
}

/// The rows next door.
pub(super) const ROWS: [Row; 7] = [
    row(
        Call::First,
        1,
        SMALL,
        &[
            BARE,
            FLOOR,
            INSERT_FIRST,
            SEQUENCE,
            GO_LEANEST,
            RESERVED,
            RESERVED_ALONE,
            RESERVED_HERE,
            RESERVED_HERE_ALONE,
            TRANSACTIONAL,
            TRANSACTIONAL_ALONE,
        ],
    ),
    row(
        Call::First,
        SEVERAL,
        SMALL,
        &[
            BARE,
            FLOOR,
            INSERT_FIRST,
            SEQUENCE,
            GO_LEANEST,
            RESERVED,
            RESERVED_PARSED,
            RESERVED_HERE,
            TRANSACTIONAL,
            TRANSACTIONAL_PARSED,
        ],
    ),
    row(Call::First, MANY, SMALL, &[BARE, GO_LEANEST, RESERVED, TRANSACTIONAL]),
    row(Call::First, SEVERAL, LARGE, &[BARE, TRANSACTIONAL]),
    row(Call::Replay, 1, SMALL, AGAIN),
    row(Call::Replay, SEVERAL, SMALL, AGAIN),
    row(Call::Replay, MANY, SMALL, AGAIN),
];

/// The rows with a slower network.
pub(super) const DISTANT: [Row; 4] = [
    Row { turn: Duration::from_millis(700), ..row(Call::First, 1, SMALL, FIRST_FAR) },
    row(Call::First, SEVERAL, SMALL, FIRST_FAR),
    row(Call::Replay, 1, SMALL, AGAIN),
    row(Call::Replay, SEVERAL, SMALL, AGAIN),
];

const FIRST_FAR: &[Contender] =
    &[BARE, FLOOR, INSERT_FIRST, SEQUENCE, GO_LEANEST, RESERVED, RESERVED_HERE, TRANSACTIONAL];

const AGAIN: &[Contender] = &[PRIMARY_KEY, GO_LEANEST, RESERVED, TRANSACTIONAL, FROM_MEMORY];

const fn row(call: Call, concurrency: usize, payload: usize, contenders: &'static [Contender]) -> Row {
    Row { call, concurrency, payload, contenders, turn: Duration::from_millis(400) }
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
