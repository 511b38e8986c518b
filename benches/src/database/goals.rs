//! The goals, and what they are measured against.

use super::{
    contender::{
        BARE, Contender, FLOOR, GO_LEANEST, INSERT_FIRST, PRIMARY_KEY, RESERVED, RESERVED_ALONE, RESERVED_HERE,
        RESERVED_HERE_ALONE, SEQUENCE, TRANSACTIONAL, TRANSACTIONAL_ALONE,
    },
    findings::{Matrix, at},
    in_flight::{HELD, InFlight, RATE},
    load::Figures,
    plan::{Call, LARGE, MANY, SEVERAL, SMALL},
};
use crate::report::{Bound, Goal};

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

/// Returns the goals.
pub(super) fn of(near: &[Matrix], in_flight: &InFlight) -> Vec<Goal> {
    let mut goals: Vec<_> = COMPARISONS.iter().map(|comparison| throughput(near, comparison)).collect();
    // The figure that can be trusted on a noisy machine.
    let processor_time = |figures: &Figures| (figures.server_processor + figures.own_processor).as_secs_f64();
    let sum = Goal::new(
        format!(
            "{}: processor time of PostgreSQL and the process per call",
            name(Call::First, SEVERAL, SMALL, TRANSACTIONAL)
        ),
        Bound::AtMost(1.11),
        at(near, Call::First, SEVERAL, SMALL).ratio(TRANSACTIONAL, FLOOR, processor_time),
        format!("× {}", FLOOR.name),
    );
    let [few, many] = HELD;
    let p99 = Goal::new(
        format!("a server of {many} calls in flight: p99 of {RATE} first calls per second beside them"),
        Bound::AtMost(2.0),
        in_flight.p99_ratio(),
        format!("× with {few} in flight"),
    );
    goals.push(Goal { limit: Some(TRANSACTIONAL_PRICE), ..sum });
    goals.push(Goal { limit: Some(IN_FLIGHT_PRICE), ..p99 });
    goals
}

fn throughput(near: &[Matrix], comparison: &Comparison) -> Goal {
    let (call, concurrency, payload, of, to, bound, price) = *comparison;
    let measure = format!("{}: throughput", name(call, concurrency, payload, of));
    let ratio = at(near, call, concurrency, payload).ratio(of, to, |figures| figures.throughput);
    let goal = Goal::new(measure, Bound::AtLeast(bound), ratio, format!("× {}", to.name));
    Goal { limit: Some(price), ..goal }
}

/// Names a contender under a load: `replay, reserved, 16 at once`.
fn name(call: Call, concurrency: usize, payload: usize, of: Contender) -> String {
    let size = if payload == SMALL { String::new() } else { format!(", {payload} bytes") };
    format!("{}, {}, {concurrency} at once{size}", call.name(), of.name)
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
