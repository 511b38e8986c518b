//! The layer alone, without a database.
//!
//! | module | holds |
//! |---|---|
//! | `echo` | the service, bare and wrapped by the layer |
//! | `way` | the ways to call it |
//! | `loopback` | throughput and latency over HTTP/2 |
//! | `in_process` | the time and the allocations of a call without a network |
//! | `client` | the time and the allocations of the client's layer |
//! | `heap`, `resident` | the memory of calls in flight, by allocations and by the system |
//! | `settling` | a store that never finishes recording a call |

mod client;
mod echo;
mod heap;
mod in_process;
mod loopback;
mod resident;
mod settling;
mod way;

pub(crate) use self::resident::{ServerKind, serve_until_input_ends};
use self::{client::AtClient, in_process::InProcess, loopback::Loopback, way::Way};
use crate::{
    Error,
    context::Context,
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

const TEXT: &str = "\
A service that echoes 100 bytes, bare and wrapped by the layer, with a store in memory: the cost of the layer alone. Over loopback \
HTTP/2, clients and servers share this machine's cores, and a call without a key is compared with the bare service turn by turn. In \
process, the service is called as tonic's server calls it, without a network: the difference is the layer and, for a first call and a \
replay, the store in memory. The client's layer is measured around a service that answers at once. All allocations of this process are counted as they are made, which makes them slower.

The memory of a call in flight is the heap that it holds while its handler runs, from the head of the request on, and the growth of a \
server in a process of its own with each such call.";

const PASSED_THROUGH_LIMIT: &str = "\
    The precision of the measurement. The layer adds a look at the path, a fraction of a microsecond (see the table of calls in process), \
    to a call that takes tens of microseconds of processor time over HTTP/2: well below a hundredth. Two servers side by side differ \
    by more than that from round to round, in both directions, and the median of the rounds still moves by as much.";

const KIBIBYTE: f64 = 1024.0;

/// Measures the layer.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let mut loopback = Vec::new();
    for concurrency in loopback::CONCURRENCY {
        context.progress(&format!("over loopback, {concurrency} at a time"));
        loopback.push((concurrency, loopback::measure(context, concurrency).await?));
    }
    context.progress("in process");
    // Allocations are counted per thread.
    let (in_process, at_client, running, recorded) = tokio::task::block_in_place(|| {
        Ok::<_, Error>((
            in_process::measure(context)?,
            client::measure(context)?,
            heap::while_handlers_run(context)?,
            heap::while_recorded(context)?,
        ))
    })?;
    context.progress("calls in flight");
    let resident = resident::while_handlers_run(context).await?;

    let mut tables: Vec<_> = loopback.iter().map(|(concurrency, ways)| over_loopback(*concurrency, ways)).collect();
    tables.push(without_a_network(&in_process));
    tables.push(in_the_client(&at_client));
    tables.push(in_flight(running, &resident));
    tables.push(being_recorded(&recorded));
    Ok(Section {
        title: "The layer",
        text: TEXT.to_owned(),
        summary: None,
        tables,
        goals: [goals(&loopback, &in_process, running, &resident), goals_of_the_client(&at_client)].concat(),
    })
}

fn over_loopback(concurrency: usize, ways: &[Loopback]) -> Table {
    let row = |way: Way| {
        let measured = &ways[way as usize];
        vec![
            way.name().to_owned(),
            format!("{:.0}", measured.throughput()),
            format!("{:.3}", measured.relative_to(&ways[Way::Bare as usize])),
            format!("{:.0}", measured.microseconds(0.5)),
            format!("{:.0}", measured.microseconds(0.99)),
        ]
    };
    Table {
        caption: format!("Over loopback HTTP/2, {concurrency} at a time"),
        columns: ["call", "calls/s", "× unwrapped", "p50, µs", "p99, µs"].map(str::to_owned).into(),
        rows: Way::ALL.map(row).into(),
    }
}

fn without_a_network(measured: &InProcess) -> Table {
    let row = |way: Way| {
        let (allocations, bytes) = measured.allocations[way as usize];
        vec![
            way.name().to_owned(),
            format!("{:.0}", measured.nanoseconds[way as usize]),
            allocations.to_string(),
            bytes.to_string(),
        ]
    };
    Table {
        caption: "In process".to_owned(),
        columns: ["call", "ns", "allocations", "bytes allocated"].map(str::to_owned).into(),
        rows: Way::ALL.map(row).into(),
    }
}

fn in_the_client(measured: &AtClient) -> Table {
    let [bare, wrapped] = measured.allocations;
    let row = |what: &str, nanoseconds: Spread, allocations: u64| {
        vec![what.to_owned(), format!("{nanoseconds:.0}"), allocations.to_string()]
    };
    Table {
        caption: "A generated client whose call is answered at once, in process".to_owned(),
        columns: ["client", "ns", "allocations"].map(str::to_owned).into(),
        rows: vec![
            row("without the layer", measured.nanoseconds[0], bare),
            row("with `IdempotencyClientLayer`", measured.nanoseconds[1], wrapped),
            row("of the layer", measured.of_the_layer, wrapped.saturating_sub(bare)),
        ],
    }
}

fn goals_of_the_client(measured: &AtClient) -> Vec<Goal> {
    let [bare, wrapped] = measured.allocations;
    let Spread { median, min, max } = measured.of_the_layer;
    let microseconds = Spread { median: median / 1000.0, min: min / 1000.0, max: max / 1000.0 };
    let goal = |bound, figure, unit: &str| Goal {
        measure: "the client's layer, answered at once".to_owned(),
        bound: Bound::AtMost(bound),
        figure,
        unit: unit.to_owned(),
        limit: None,
    };
    vec![goal(5.0, microseconds, "µs"), goal(3.0, Spread::of([wrapped as f64 - bare as f64]), "allocations")]
}

fn in_flight([bare, wrapped]: [f64; 2], resident: &[Vec<f64>; 2]) -> Table {
    let row = |what: &str, bare: Spread, wrapped: Spread, layer: Spread| {
        vec![what.to_owned(), format!("{bare:.0}"), format!("{wrapped:.0}"), format!("{layer:.0}")]
    };
    let one = |bytes| Spread::of([bytes]);
    let [bare_resident, wrapped_resident] = resident.each_ref().map(|rounds| Spread::of(rounds.iter().copied()));
    Table {
        caption: format!("Memory of each of {} calls in flight while its handler runs, in bytes", heap::CALLS),
        columns: ["memory", "unwrapped", "with a key", "of the layer"].map(str::to_owned).into(),
        rows: vec![
            row("on the heap", one(bare), one(wrapped), one(wrapped - bare)),
            row("resident, over HTTP/2", bare_resident, wrapped_resident, of_the_layer(resident)),
        ],
    }
}

fn being_recorded(held: &[f64]) -> Table {
    let row = |(size, bytes): (u32, &f64)| {
        vec![size.to_string(), format!("{bytes:.0}"), format!("{:.0}", bytes - f64::from(size))]
    };
    Table {
        caption: "Memory of a call while its response is recorded, in bytes".to_owned(),
        columns: ["response", "held", "beyond the response"].map(str::to_owned).into(),
        rows: heap::RESPONSES.into_iter().zip(held).map(row).collect(),
    }
}

fn goals(
    loopback: &[(usize, Vec<Loopback>)],
    in_process: &InProcess,
    [bare, wrapped]: [f64; 2],
    resident: &[Vec<f64>; 2],
) -> Vec<Goal> {
    let goal = |measure: String, bound, figure, unit: &str| Goal {
        measure,
        bound,
        figure,
        unit: unit.to_owned(),
        limit: None,
    };
    let mut goals = Vec::new();
    for (concurrency, ways) in loopback {
        let ratio = ways[Way::PassedThrough as usize].relative_to(&ways[Way::Bare as usize]);
        let measure = format!("without a key, over HTTP/2, {concurrency} at a time");
        let unwrapped = goal(measure, Bound::AtLeast(0.99), ratio, "× unwrapped throughput");
        goals.push(Goal { limit: Some(PASSED_THROUGH_LIMIT.to_owned()), ..unwrapped });
    }
    let [(bare_allocations, _), (passed_through, _), ..] = in_process.allocations;
    let of_the_layer_alone = Spread::of([passed_through as f64 - bare_allocations as f64]);
    goals.push(goal("without a key".to_owned(), Bound::AtMost(0.0), of_the_layer_alone, "allocations"));
    let measure = |memory| format!("{} calls in flight, {memory}", heap::CALLS);
    let on_the_heap = Spread::of([(wrapped - bare) / KIBIBYTE]);
    goals.push(goal(measure("on the heap"), Bound::AtMost(4.0), on_the_heap, "KiB per call"));
    let Spread { median, min, max } = of_the_layer(resident);
    let figure = Spread { median: median / KIBIBYTE, min: min / KIBIBYTE, max: max / KIBIBYTE };
    goals.push(goal(measure("resident"), Bound::AtMost(4.0), figure, "KiB per call"));
    goals
}

/// Returns the memory that the layer adds, round by round.
fn of_the_layer([bare, wrapped]: &[Vec<f64>; 2]) -> Spread {
    Spread::of(wrapped.iter().zip(bare).map(|(wrapped, bare)| wrapped - bare))
}
