//! The layer, without a database.
//!
//! | module | holds |
//! |---|---|
//! | `service` | the service, bare and wrapped by the layer, and a client of one that answers at once |
//! | `lane` | calls of a journal in one lane |

mod lane;
mod service;

use std::time::Instant;

use tokio::{runtime, task::block_in_place};
use tonic_idempotency_client::IdempotencyClientLayer;
use tower_layer::Layer as _;
use uuid::Uuid;

use self::service::{
    AtOnce, FILE_DESCRIPTOR_SET, SAY, bare,
    proto::{SayRequest, echo_client::EchoClient},
    wrapped,
};
use crate::{
    context::Context,
    error::Error,
    report::{Bound, Goal, Section, Spread, table},
    unary,
};

const ROUNDS: usize = 60;
const CALLS: usize = 1000;

/// The calls of which the one that allocates least counts: maps and buffers grow now and then.
const COUNTED: usize = 8;

const TEXT: &str = "\
A service that echoes 100 bytes, bare and wrapped by the layer, with a store in memory: the cost of the layer alone. The service is \
called as tonic's server calls it, without a network: the difference is the layer and, for a first call and a \
replay, the store in memory. The client's layer is measured around a service that answers at once; with a journal in memory, \
10,000 calls are made at the same time in one lane, without one, and one after the other. All allocations of this process are counted as they are made, which makes them slower.";

/// The cost of one call.
#[derive(Default)]
struct Cost {
    /// The time in each round.
    nanoseconds: Vec<f64>,
    /// The number of allocations, and their bytes, in each round.
    allocations: Vec<(u64, u64)>,
}

/// Measures the layer.
pub(crate) fn measure(context: &Context) -> Result<Section, Error> {
    // Allocations are counted per thread.
    let ([in_process, at_client], in_lane) =
        block_in_place(|| Ok::<_, Error>((in_process(context)?, lane::measure(context)?)))?;
    let [bare, without_a_key, ..] = &in_process[..] else { return Err("no calls".into()) };
    let of_the_layer = without_a_key.1.least().0 as f64 - bare.1.least().0 as f64;
    let [without, with] = &at_client[..] else { return Err("no clients".into()) };
    let added = with.1.nanoseconds.iter().zip(&without.1.nanoseconds).map(|(with, without)| (with - without) / 1e3);
    let client = "the client's layer, answered at once";
    let allocated = with.1.least().0 as f64 - without.1.least().0 as f64;
    let goals = vec![
        Goal::new("without a key", Bound::AtMost(0.0), Spread::of([of_the_layer]), "allocations"),
        Goal::new(client, Bound::AtMost(5.0), Spread::of(added), "µs"),
        Goal::new(client, Bound::AtMost(3.0), Spread::of([allocated]), "allocations"),
        Goal::new("10,000 calls of one lane", Bound::AtMost(2.0), in_lane.ratio, "× the same calls without an order"),
    ];
    let of_calls = |caption: &str, costs: &[(&str, Cost)]| {
        table(
            caption,
            ["call", "ns", "allocations", "bytes allocated"],
            costs.iter().map(|(name, cost)| cost.row(name)),
        )
    };
    let tables = vec![
        of_calls("In process", &in_process),
        of_calls("A generated client whose call is answered at once, in process", &at_client),
        in_lane.table,
    ];
    Ok(Section { title: "The layer", text: TEXT.to_owned(), tables, goals, ..Section::default() })
}

type Costs = Vec<(&'static str, Cost)>;

/// Measures calls of the service, and of a client that is answered at once, on this thread only.
fn in_process(context: &Context) -> Result<[Costs; 2], Error> {
    let (mut bare, mut wrapped) = (bare(), wrapped()?);
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).procedure(SAY).build()?;
    let (mut without, mut with) = (EchoClient::new(AtOnce), EchoClient::new(layer.layer(AtOnce)));
    let say = |reply_bytes| SayRequest { payload: vec![7; 100].into(), reply_bytes };
    let (message, recorded) = (say(100), Uuid::new_v4());
    let mut services = ["unwrapped", "without a key", "first call", "replay"].map(|name| (name, Cost::default()));
    let mut of_clients = ["without the layer", "with `IdempotencyClientLayer`"].map(|name| (name, Cost::default()));
    for round in 0..context.rounds(ROUNDS) {
        // The two that are compared most closely have two turns each, so that a machine that gets slower or faster during a
        // round affects both alike; they take turns to be first.
        let turns = if round % 2 == 0 { [0, 1, 1, 0, 2, 3] } else { [1, 0, 0, 1, 2, 3] };
        for turn in turns {
            let key = || match turn {
                0 | 1 => None,
                2 => Some(Uuid::new_v4()),
                _ => Some(recorded),
            };
            let (request, cost) = (|| unary::request(SAY, &message, key()), &mut services[turn].1);
            match turn {
                0 => cost.add(context, request, async |request| unary::answer(&mut bare, request).await)?,
                _ => cost.add(context, request, async |request| unary::answer(&mut wrapped, request).await)?,
            }
        }
        let [of_bare, of_wrapped] = &mut of_clients;
        of_bare.1.add(context, || Ok(say(0)), async |say| Ok(without.say(say).await.map(drop)?))?;
        of_wrapped.1.add(context, || Ok(say(0)), async |say| Ok(with.say(say).await.map(drop)?))?;
    }
    Ok([services.into(), of_clients.into()])
}

impl Cost {
    /// Measures the calls of a round, after one that is not measured: it records what is replayed.
    fn add<T>(
        &mut self,
        context: &Context,
        request: impl Fn() -> Result<T, Error>,
        mut call: impl AsyncFnMut(T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        runtime.block_on(call(request()?))?;
        let requests = (0..context.count(CALLS)).map(|_| request()).collect::<Result<Vec<_>, _>>()?;
        let (calls, begun) = (requests.len() as f64, Instant::now());
        runtime.block_on(async {
            for request in requests {
                call(request).await?;
            }
            Ok::<_, Error>(())
        })?;
        self.nanoseconds.push(begun.elapsed().as_nanos() as f64 / calls);
        for _ in 0..COUNTED {
            let (request, mut answered) = (request()?, Ok(()));
            let info = allocation_counter::measure(|| answered = runtime.block_on(call(request)));
            answered?;
            self.allocations.push((info.count_total, info.bytes_total));
        }
        Ok(())
    }

    /// Returns the allocations of the call that allocates least, and their bytes.
    fn least(&self) -> (u64, u64) {
        self.allocations.iter().min().copied().unwrap_or_default()
    }

    fn row(&self, name: &str) -> [String; 4] {
        let (allocations, bytes) = self.least();
        let nanoseconds = Spread::of(self.nanoseconds.iter().copied()).with_decimals(0);
        [name.to_owned(), nanoseconds, allocations.to_string(), bytes.to_string()]
    }
}
