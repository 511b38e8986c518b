//! The request hash by message shape, compared with SHA-256 of its bytes, and with decoding and encoding again.
//!
//! | module | holds |
//! |---|---|
//! | `shape` | the messages, each in two encodings, with their goals |
//! | `dynamic` | an encoding of `DynamicMessage` |

mod dynamic;
mod shape;
mod way;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use protobuf_canonical::Canonical;
use sha2::{Digest as _, Sha256};

use self::{shape::Shape, way::Way};
use crate::{
    context::Context,
    error::Error,
    report::{Bound, Goal, Section, Spread, table},
};

const ROUNDS: usize = 31;
const SAMPLE: Duration = Duration::from_millis(5);

const TEXT: &str = "\
Before the layer calls the database, it hashes the request message of every call with a key. All encodings of a message have \
the same hash. `Canonical::hash` reads the bytes by the message's descriptor: if they are canonical, it hashes them in place; if \
not, it writes the canonical encoding and hashes that.

It is compared with SHA-256 of the same bytes with the same crate, which is the lower bound, and with the alternative: decode the \
message and encode it again in a fixed order, as a `DynamicMessage` whose maps are sorted while they are written: a layer around any \
service does not know the generated type. Before it is measured, each has to give the same hash for a canonical and for another encoding. The ways take turns, and ratios are taken \
within a round. Allocations are counted separately from the time.";

const WAYS: [Way; 3] = [Way::Canonical, Way::Plain, Way::Dynamic];

const COLUMNS: [&str; 5] = ["message", "bytes", "`Canonical::hash`", "plain SHA-256", "`DynamicMessage`, sorted"];

/// Hashes documents in every way.
struct Hasher {
    canonical: Canonical,
    descriptor: MessageDescriptor,
}

/// The cost of one hash, by way.
#[derive(Default)]
struct Costs {
    /// The time in each round.
    nanoseconds: [Vec<f64>; WAYS.len()],
    allocations: [u64; WAYS.len()],
}

/// Measures the hash of each shape in both encodings.
pub(crate) fn measure(context: &Context) -> Result<Section, Error> {
    let hasher = Hasher::new()?;
    let (mut rows, mut goals, mut allocations) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
    for shape in shape::all() {
        hasher.assert_same_hash(&shape)?;
        let Shape { name, difference, canonical, other, .. } = &shape;
        let costs = hasher.costs(context, canonical)?;
        rows[0].push(costs.row((*name).to_owned(), canonical));
        goals.extend(shape.goals.iter().map(|(of, to, bound, unit)| {
            Goal::new(format!("hash of a canonical message: {name}"), *bound, costs.ratio(*of, *to), *unit)
        }));
        allocations.push(costs.allocations[Way::Canonical as usize] as f64);
        let costs = hasher.costs(context, other)?;
        rows[1].push(costs.row(format!("{name}: {difference}"), other));
        let measure = format!("hash of a message that is not canonical: {name}: {difference}");
        let ratio = costs.ratio(Way::Dynamic, Way::Canonical);
        let goal = Goal::new(measure, Bound::AtLeast(5.0), ratio, "× faster than `DynamicMessage`");
        goals.push(Goal { limit: shape.limit, ..goal });
    }
    let measure = "hash of a canonical message, of any shape";
    goals.push(Goal::new(measure, Bound::AtMost(0.0), Spread::of(allocations), "allocations"));
    let [canonical, others] = rows;
    let tables = [("canonical messages", canonical), ("messages that are not canonical", others)].map(|(of, rows)| {
        let figures = "ns per call; allocations per call; the time, × that of `Canonical::hash`";
        table(&format!("Hash of {of}: {figures}"), COLUMNS, rows)
    });
    Ok(Section { title: "The request hash", text: TEXT.to_owned(), tables: tables.into(), goals, ..Section::default() })
}

impl Hasher {
    fn new() -> Result<Self, Error> {
        let pool = DescriptorPool::decode(shape::proto::FILE_DESCRIPTOR_SET)?;
        let descriptor = pool.get_message_by_name("benchmarks.hash.v1.Document").ok_or("no such message")?;
        Ok(Self { canonical: Canonical::new(&descriptor), descriptor })
    }

    fn hash(&self, way: Way, wire: &[u8]) -> Result<[u8; 32], Error> {
        Ok(match way {
            Way::Canonical => *self.canonical.hash(wire)?.as_bytes(),
            Way::Plain => Sha256::digest(wire).into(),
            Way::Dynamic => {
                let message = DynamicMessage::decode(self.descriptor.clone(), wire)?;
                let mut encoded = Vec::with_capacity(wire.len());
                dynamic::encode_sorted(&message, &mut encoded)?;
                Sha256::digest(encoded).into()
            }
        })
    }

    /// Checks that each way but plain SHA-256 has the same hash for both encodings.
    fn assert_same_hash(&self, Shape { name, canonical, other, .. }: &Shape) -> Result<(), Error> {
        assert_ne!(canonical, other);
        let expected = self.hash(Way::Plain, canonical)?;
        for way in [Way::Canonical, Way::Dynamic] {
            for wire in [canonical, other] {
                assert_eq!(self.hash(way, wire)?, expected, "{way:?} of {name}");
            }
        }
        Ok(())
    }

    fn costs(&self, context: &Context, wire: &[u8]) -> Result<Costs, Error> {
        let (mut costs, mut calls) = (Costs::default(), [1; WAYS.len()]);
        for way in WAYS {
            // Before allocations are counted, so that those which happen only once are not.
            while self.time(way, wire, calls[way as usize])? < context.time(SAMPLE) {
                calls[way as usize] *= 2;
            }
            let mut hash = Ok([0; 32]);
            let info = allocation_counter::measure(|| hash = self.hash(way, wire));
            costs.allocations[way as usize] = hash.map(|_| info.count_total)?;
        }
        for _ in 0..context.rounds(ROUNDS) {
            for way in WAYS {
                let calls = calls[way as usize];
                let time = self.time(way, wire, calls)?.as_secs_f64() * 1e9;
                costs.nanoseconds[way as usize].push(time / f64::from(calls));
            }
        }
        Ok(costs)
    }

    /// Measures the time of the calls, without counting their allocations.
    fn time(&self, way: Way, wire: &[u8], calls: u32) -> Result<Duration, Error> {
        let mut taken = Ok(Duration::ZERO);
        allocation_counter::opt_out(|| {
            let begun = Instant::now();
            let hashed = (0..calls).try_for_each(|_| {
                black_box(self.hash(way, black_box(wire))?);
                Ok(())
            });
            taken = hashed.map(|()| begun.elapsed());
        });
        taken
    }
}

impl Costs {
    /// Returns the ratio of the time of one way to that of another.
    fn ratio(&self, of: Way, to: Way) -> Spread {
        Spread::of_ratios(&self.nanoseconds[of as usize], &self.nanoseconds[to as usize])
    }

    fn row(&self, label: String, wire: &[u8]) -> [String; COLUMNS.len()] {
        let [canonical, plain, dynamic] = WAYS.map(|way| {
            let time = Spread::of(self.nanoseconds[way as usize].iter().copied()).with_decimals(0);
            let ratio = self.ratio(way, Way::Canonical).with_decimals(2);
            format!("{time}; {}; × {ratio}", self.allocations[way as usize])
        });
        [label, wire.len().to_string(), canonical, plain, dynamic]
    }
}
