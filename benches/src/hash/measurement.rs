//! The time and the allocations of a hash.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use super::{
    shape::{Shape, ShapeId},
    way::{Hasher, Way},
};
use crate::{Error, context::Context, spread::Spread};

const ROUNDS: usize = 31;
const SAMPLE: Duration = Duration::from_millis(5);

/// An encoding of a shape's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Canonical,
    Other,
}

impl Encoding {
    pub(crate) const ALL: [Self; 2] = [Self::Canonical, Self::Other];

    fn of(self, shape: &Shape) -> &[u8] {
        match self {
            Self::Canonical => &shape.canonical,
            Self::Other => &shape.other,
        }
    }
}

/// The cost of hashing one encoding of a shape, in every way.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) shape: ShapeId,
    pub(crate) encoding: Encoding,
    pub(crate) bytes: usize,
    /// In the order of `Way::ALL`.
    costs: [Cost; Way::ALL.len()],
}

#[derive(Debug, Default)]
struct Cost {
    /// The calls of a round.
    calls: u32,
    /// The time of one call, for each round.
    nanoseconds: Vec<f64>,
    /// The allocations of one call.
    allocations: u64,
}

impl Measurement {
    pub(crate) fn take(context: &Context, hasher: &Hasher, shape: &Shape, encoding: Encoding) -> Result<Self, Error> {
        let wire = encoding.of(shape);
        let samplers = Way::ALL.map(|way| Sampler { hasher, way, wire });
        let mut costs = Way::ALL.map(|_| Cost::default());
        for (cost, sampler) in costs.iter_mut().zip(&samplers) {
            // Before allocations are counted, so that those which happen only once are not.
            cost.calls = sampler.calls_in(context.time(SAMPLE))?;
            cost.allocations = sampler.allocations()?;
        }
        for _ in 0..context.rounds(ROUNDS) {
            for (cost, sampler) in costs.iter_mut().zip(&samplers) {
                let time = sampler.time(cost.calls)?;
                cost.nanoseconds.push(time.as_secs_f64() * 1e9 / f64::from(cost.calls));
            }
        }
        Ok(Self { shape: shape.id, encoding, bytes: wire.len(), costs })
    }

    /// Returns the allocations of one call.
    pub(crate) fn allocations(&self, way: Way) -> u64 {
        self.cost(way).allocations
    }

    /// Returns the time of one call.
    pub(crate) fn nanoseconds(&self, way: Way) -> Spread {
        Spread::of(self.cost(way).nanoseconds.iter().copied())
    }

    /// Returns the ratio of the time of one way to that of another.
    pub(crate) fn ratio(&self, way: Way, other: Way) -> Spread {
        Spread::of_ratios(&self.cost(way).nanoseconds, &self.cost(other).nanoseconds)
    }

    fn cost(&self, way: Way) -> &Cost {
        &self.costs[way as usize]
    }
}

/// Hashes the same bytes repeatedly in one way.
struct Sampler<'a> {
    hasher: &'a Hasher,
    way: Way,
    wire: &'a [u8],
}

impl Sampler<'_> {
    /// Returns the number of calls that take about this time.
    fn calls_in(&self, time: Duration) -> Result<u32, Error> {
        let mut calls = 1;
        loop {
            let taken = self.time(calls)?;
            if taken >= time / 2 {
                let calls = f64::from(calls) * time.as_secs_f64() / taken.as_secs_f64();
                return Ok((calls as u32).max(1));
            }
            calls *= 2;
        }
    }

    /// Measures the time of the calls, without counting their allocations.
    fn time(&self, calls: u32) -> Result<Duration, Error> {
        let mut taken = Ok(Duration::ZERO);
        allocation_counter::opt_out(|| taken = self.run(calls));
        taken
    }

    fn allocations(&self) -> Result<u64, Error> {
        let mut ran = Ok(Duration::ZERO);
        let info = allocation_counter::measure(|| ran = self.run(1));
        ran.map(|_| info.count_total)
    }

    fn run(&self, calls: u32) -> Result<Duration, Error> {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(self.hasher.hash(self.way, black_box(self.wire))?);
        }
        Ok(start.elapsed())
    }
}
