//! The goals, and what they are measured against.

use std::time::Duration;

use super::{
    contender::{
        BARE, Contender, FLOOR, GO_LEANEST, INSERT_FIRST, PRIMARY_KEY, RESERVED, RESERVED_ALONE, RESERVED_HERE,
        RESERVED_HERE_ALONE, SEQUENCE, TRANSACTIONAL, TRANSACTIONAL_ALONE,
    },
    in_flight::{HELD, InFlight, RATE},
    load::Figures,
    matrix::Matrix,
    plan::{Call, LARGE, MANY, SEVERAL, SMALL},
};
use crate::{
    format,
    section::{Bound, Goal},
    spread::Spread,
};

/// The precision of "not slower": what a ratio of two equal contenders may be by chance.
const PRECISION: f64 = 0.97;

/// A goal, and the load under which a profile shows what limits it.
#[derive(Clone, Debug)]
pub(super) struct Aim {
    pub(super) goal: Goal,
    pub(super) subject: Subject,
    /// The processor time of what it is compared with, in a few words.
    pub(super) base: Option<String>,
    /// The price of passing the limit.
    pub(super) price: &'static str,
}

/// A contender under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) call: Call,
    pub(super) of: Contender,
    pub(super) concurrency: usize,
    pub(super) payload: usize,
}

/// Returns the goals, in the order in which they were set.
pub(super) fn of(near: &[Matrix], in_flight: &InFlight) -> Vec<Aim> {
    let mut aims = replays(near);
    aims.extend(first_calls(near));
    aims.extend(alone(near));
    aims.push(prepared(in_flight));
    aims.push(processor_time(near));
    aims.extend(calls_in_flight(in_flight));
    aims
}

fn replays(near: &[Matrix]) -> Vec<Aim> {
    let throughput = |to, concurrency, bound| {
        let subject = Subject { call: Call::Replay, of: RESERVED, concurrency, payload: SMALL };
        throughput(near, subject, to, bound, REPLAY_PRICE)
    };
    vec![
        throughput(PRIMARY_KEY, 1, 0.9),
        throughput(PRIMARY_KEY, SEVERAL, 1.1),
        throughput(PRIMARY_KEY, MANY, 1.3),
        throughput(GO_LEANEST, 1, 2.5),
        throughput(GO_LEANEST, SEVERAL, 3.5),
        throughput(GO_LEANEST, MANY, 3.5),
    ]
}

fn first_calls(near: &[Matrix]) -> Vec<Aim> {
    let throughput = |of, to, concurrency, payload, bound, price| {
        throughput(near, Subject { call: Call::First, of, concurrency, payload }, to, bound, price)
    };
    let mut aims = vec![
        throughput(TRANSACTIONAL, INSERT_FIRST, SEVERAL, SMALL, 0.95, TRANSACTIONAL_PRICE),
        throughput(TRANSACTIONAL, SEQUENCE, SEVERAL, SMALL, 1.15, TRANSACTIONAL_PRICE),
        throughput(TRANSACTIONAL, BARE, SEVERAL, LARGE, 0.80, LARGE_PRICE),
    ];
    for concurrency in [1, SEVERAL, MANY] {
        aims.push(throughput(TRANSACTIONAL, GO_LEANEST, concurrency, SMALL, 2.5, TRANSACTIONAL_PRICE));
        aims.push(throughput(RESERVED, GO_LEANEST, concurrency, SMALL, 2.0, RESERVED_PRICE));
    }
    aims
}

/// First calls one at a time are not slower for the batches, which are for calls that wait.
fn alone(near: &[Matrix]) -> Vec<Aim> {
    let pairs =
        [(RESERVED, RESERVED_ALONE), (RESERVED_HERE, RESERVED_HERE_ALONE), (TRANSACTIONAL, TRANSACTIONAL_ALONE)];
    let aim = |(of, to)| {
        let subject = Subject { call: Call::First, of, concurrency: 1, payload: SMALL };
        throughput(near, subject, to, PRECISION, "Nothing: turn batches off with `max_batch(1)`.")
    };
    pairs.map(aim).to_vec()
}

fn prepared(in_flight: &InFlight) -> Aim {
    let goal = Goal {
        measure: "statements of the layer that a connection keeps prepared, as it comes".to_owned(),
        bound: Bound::AtLeast(1.0),
        figure: Spread::of([in_flight.prepared as f64]),
        unit: "statements".to_owned(),
        limit: None,
    };
    let subject = Subject { call: Call::First, of: RESERVED, concurrency: SEVERAL, payload: SMALL };
    Aim { goal, subject, base: None, price: "Nothing: it is a setting of the store." }
}

/// The figure that can be trusted on a noisy machine.
fn processor_time(near: &[Matrix]) -> Aim {
    let subject = Subject { call: Call::First, of: TRANSACTIONAL, concurrency: SEVERAL, payload: SMALL };
    let turns = &subject.matrix(near).turns;
    let both = |figures: &Figures| (figures.server_processor + figures.own_processor).as_secs_f64();
    let goal = Goal {
        measure: format!("{}: processor time of PostgreSQL and the process per call", subject.name()),
        bound: Bound::AtMost(1.11),
        figure: turns.ratio(TRANSACTIONAL, FLOOR, both),
        unit: format!("× {}", FLOOR.name),
        limit: None,
    };
    Aim { goal, subject, base: Some(subject.base(near, FLOOR)), price: TRANSACTIONAL_PRICE }
}

fn calls_in_flight(in_flight: &InFlight) -> [Aim; 2] {
    let subject = Subject { call: Call::First, of: RESERVED, concurrency: SEVERAL, payload: SMALL };
    let [few, many] = HELD.map(|held| format::figure(held as f64));
    let connections = Goal {
        measure: format!("a server of {many} calls in flight: its connections"),
        bound: Bound::AtMost(16.0),
        figure: Spread::of([in_flight.connections as f64]),
        unit: "connections".to_owned(),
        limit: None,
    };
    let p99 = Goal {
        measure: format!("a server of {many} calls in flight: p99 of {RATE} first calls per second beside them"),
        bound: Bound::AtMost(2.0),
        figure: in_flight.p99_ratio(),
        unit: format!("× with {few} in flight"),
        limit: None,
    };
    [connections, p99].map(|goal| Aim {
        goal,
        subject,
        base: None,
        price: "A larger pool, and a server with more processors.",
    })
}

fn throughput(near: &[Matrix], subject: Subject, to: Contender, bound: f64, price: &'static str) -> Aim {
    let goal = Goal {
        measure: format!("{}: throughput", subject.name()),
        bound: Bound::AtLeast(bound),
        figure: subject.matrix(near).turns.throughput_ratio(subject.of, to),
        unit: format!("× {}", to.name),
        limit: None,
    };
    Aim { goal, subject, base: Some(subject.base(near, to)), price }
}

impl Subject {
    /// Says how much processor time another contender takes under its load.
    fn base(self, near: &[Matrix], to: Contender) -> String {
        let turns = &self.matrix(near).turns;
        let time = |of: fn(&Figures) -> Duration| {
            format::duration(turns.spread(to, |figures| of(figures).as_secs_f64()).median)
        };
        let (server, own) = (time(|figures| figures.server_processor), time(|figures| figures.own_processor));
        format!("{} takes {server} in PostgreSQL and {own} in the process", to.name)
    }

    /// Names it: `replay, reserved, 16 at once`.
    pub(super) fn name(self) -> String {
        let Self { call, of, concurrency, payload } = self;
        let at_once = if concurrency == 1 { "one at a time".to_owned() } else { format!("{concurrency} at once") };
        let size = if payload == SMALL { String::new() } else { format!(", {}", format::bytes(payload as f64)) };
        format!("{}, {}, {at_once}{size}", call.name(), of.name)
    }

    /// Returns the measurements under its load.
    pub(super) fn matrix(self, near: &[Matrix]) -> &Matrix {
        let here = near.iter().find(|matrix| matrix.is(self.call, self.concurrency, self.payload));
        here.expect("the rows of all goals are measured")
    }
}

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
