//! The goals, and what they are measured against.

use std::time::Duration;

use super::{
    contender::{
        BARE, Contender, FLOOR, GO_LEANEST, INSERT_FIRST, PRIMARY_KEY, RESERVED, RESERVED_ALONE, RESERVED_HERE,
        RESERVED_HERE_ALONE, SEQUENCE, TRANSACTIONAL, TRANSACTIONAL_ALONE,
    },
    in_flight::{HELD, InFlight, RATE},
    load::Figures,
    matrix::{self, Matrix},
    plan::{Call, LARGE, MANY, SEVERAL, SMALL},
    turns::Turns,
};
use crate::{
    format,
    section::{Bound, Goal},
};

/// The precision of "not slower": what a ratio of two equal contenders may be by chance.
const PRECISION: f64 = 0.97;

/// A contender under a load, what its throughput is compared with, and the least ratio.
type Comparison = (Call, usize, usize, Contender, Contender, f64, &'static str);

/// In the order in which they were set.
const COMPARISONS: [Comparison; 18] = [
    (Call::Replay, 1, SMALL, RESERVED, PRIMARY_KEY, 0.9, REPLAY_PRICE),
    (Call::Replay, SEVERAL, SMALL, RESERVED, PRIMARY_KEY, 1.1, REPLAY_PRICE),
    (Call::Replay, MANY, SMALL, RESERVED, PRIMARY_KEY, 1.3, REPLAY_PRICE),
    (Call::Replay, 1, SMALL, RESERVED, GO_LEANEST, 2.5, REPLAY_PRICE),
    (Call::Replay, SEVERAL, SMALL, RESERVED, GO_LEANEST, 3.5, REPLAY_PRICE),
    (Call::Replay, MANY, SMALL, RESERVED, GO_LEANEST, 3.5, REPLAY_PRICE),
    (Call::First, SEVERAL, SMALL, TRANSACTIONAL, INSERT_FIRST, 0.95, TRANSACTIONAL_PRICE),
    (Call::First, SEVERAL, SMALL, TRANSACTIONAL, SEQUENCE, 1.15, TRANSACTIONAL_PRICE),
    (Call::First, SEVERAL, LARGE, TRANSACTIONAL, BARE, 0.8, LARGE_PRICE),
    (Call::First, 1, SMALL, TRANSACTIONAL, GO_LEANEST, 2.5, TRANSACTIONAL_PRICE),
    (Call::First, 1, SMALL, RESERVED, GO_LEANEST, 2.0, RESERVED_PRICE),
    (Call::First, SEVERAL, SMALL, TRANSACTIONAL, GO_LEANEST, 2.5, TRANSACTIONAL_PRICE),
    (Call::First, SEVERAL, SMALL, RESERVED, GO_LEANEST, 2.0, RESERVED_PRICE),
    (Call::First, MANY, SMALL, TRANSACTIONAL, GO_LEANEST, 2.5, TRANSACTIONAL_PRICE),
    (Call::First, MANY, SMALL, RESERVED, GO_LEANEST, 2.0, RESERVED_PRICE),
    // First calls one at a time are not slower for the batches, which are for calls that wait.
    (Call::First, 1, SMALL, RESERVED, RESERVED_ALONE, PRECISION, ALONE_PRICE),
    (Call::First, 1, SMALL, RESERVED_HERE, RESERVED_HERE_ALONE, PRECISION, ALONE_PRICE),
    (Call::First, 1, SMALL, TRANSACTIONAL, TRANSACTIONAL_ALONE, PRECISION, ALONE_PRICE),
];

/// A goal, and the load under which a profile shows what limits it.
pub(super) struct Aim {
    pub(super) goal: Goal,
    pub(super) subject: Subject,
    /// The processor time of what it is compared with, in a few words.
    pub(super) base: Option<String>,
    /// The price of passing the limit.
    pub(super) price: &'static str,
}

/// A contender under a load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) call: Call,
    pub(super) concurrency: usize,
    pub(super) payload: usize,
    pub(super) of: Contender,
}

/// Returns the goals.
pub(super) fn of(near: &[Matrix], in_flight: &InFlight) -> Vec<Aim> {
    let mut aims: Vec<_> = COMPARISONS.iter().map(|comparison| throughput(near, comparison)).collect();
    let [few, many] = HELD.map(|held| format::figure(held as f64));
    let [transactional, reserved] =
        [TRANSACTIONAL, RESERVED].map(|of| Subject { call: Call::First, concurrency: SEVERAL, payload: SMALL, of });
    // The figure that can be trusted on a noisy machine.
    let processor_time = |figures: &Figures| (figures.server_processor + figures.own_processor).as_secs_f64();
    let sum = Goal::new(
        format!("{}: processor time of PostgreSQL and the process per call", transactional.name()),
        Bound::AtMost(1.11),
        transactional.turns(near).ratio(TRANSACTIONAL, FLOOR, processor_time),
        format!("× {}", FLOOR.name),
    );
    let p99 = Goal::new(
        format!("a server of {many} calls in flight: p99 of {RATE} first calls per second beside them"),
        Bound::AtMost(2.0),
        in_flight.p99_ratio(),
        format!("× with {few} in flight"),
    );
    let floor = Some(transactional.base(near, FLOOR));
    aims.push(Aim { goal: sum, subject: transactional, base: floor, price: TRANSACTIONAL_PRICE });
    aims.push(Aim { goal: p99, subject: reserved, base: None, price: IN_FLIGHT_PRICE });
    aims
}

fn throughput(near: &[Matrix], comparison: &Comparison) -> Aim {
    let (call, concurrency, payload, of, to, bound, price) = *comparison;
    let subject = Subject { call, concurrency, payload, of };
    let (measure, ratio) = (format!("{}: throughput", subject.name()), subject.turns(near).throughput_ratio(of, to));
    let goal = Goal::new(measure, Bound::AtLeast(bound), ratio, format!("× {}", to.name));
    Aim { goal, subject, base: Some(subject.base(near, to)), price }
}

impl Subject {
    /// Says how much processor time another contender takes under its load.
    fn base(self, near: &[Matrix], to: Contender) -> String {
        let time = |of: fn(&Figures) -> Duration| {
            format::duration(self.turns(near).spread(to, |figures| of(figures).as_secs_f64()).median)
        };
        let (server, own) = (time(|figures| figures.server_processor), time(|figures| figures.own_processor));
        format!("{} takes {server} in PostgreSQL and {own} in the process", to.name)
    }

    /// Names it: `replay, reserved, 16 at once`.
    pub(super) fn name(self) -> String {
        let Self { call, concurrency, payload, of } = self;
        let at_once = if concurrency == 1 { "one at a time".to_owned() } else { format!("{concurrency} at once") };
        let size = if payload == SMALL { String::new() } else { format!(", {}", format::bytes(payload as f64)) };
        format!("{}, {}, {at_once}{size}", call.name(), of.name)
    }

    fn turns(self, near: &[Matrix]) -> &Turns {
        &matrix::at(near, self.call, self.concurrency, self.payload).turns
    }
}

const ALONE_PRICE: &str = "Nothing: turn batches off with `max_batch(1)`.";

const IN_FLIGHT_PRICE: &str = "A larger pool, and a server with more processors.";

const REPLAY_PRICE: &str = "\
    A replay from memory asks no server (see *from memory*); from the store it costs a statement, a look-up under row-level security, and the \
    work's status.";

const RESERVED_PRICE: &str = "\
    Transactional mode, which has neither a reservation nor a commit of its own; or durability: a reservation that does not wait for the \
    disk (`EffectPolicy::SameServer`).";

const TRANSACTIONAL_PRICE: &str = "\
    The record itself: one row with its index entries in the handler's own transaction.";

const LARGE_PRICE: &str = "\
    The response's copy in the record: a procedure whose responses are large can keep what it needs to make them again, instead of them.";
