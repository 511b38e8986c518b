//! The layer alone, without a database.
//!
//! | module | holds |
//! |---|---|
//! | `echo` | the service, bare and wrapped by the layer |
//! | `way` | the ways to call it |
//! | `in_process` | the time and the allocations of a call without a network |
//! | `client` | the time and the allocations of the client's layer |
//! | `lane` | calls of a journal in one lane |

mod client;
mod echo;
mod in_process;
mod lane;
mod way;

use self::{
    client::AtClient,
    in_process::InProcess,
    lane::{InOneLane, Order},
    way::Way,
};
use crate::{
    Error,
    context::Context,
    format,
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

const TEXT: &str = "\
A service that echoes 100 bytes, bare and wrapped by the layer, with a store in memory: the cost of the layer alone. The service is \
called as tonic's server calls it, without a network: the difference is the layer and, for a first call and a \
replay, the store in memory. The client's layer is measured around a service that answers at once; with a journal in memory, \
10,000 calls are made at the same time in one lane, without one, and one after the other. All allocations of this process are counted as they are made, which makes them slower.";

/// Measures the layer.
pub(crate) fn measure(context: &Context) -> Result<Section, Error> {
    context.progress("in process");
    // Allocations are counted per thread.
    let (in_process, at_client, in_lane) = tokio::task::block_in_place(|| {
        Ok::<_, Error>((in_process::measure(context)?, client::measure(context)?, lane::measure(context)?))
    })?;
    Ok(Section {
        title: "The layer",
        text: TEXT.to_owned(),
        summary: None,
        tables: vec![without_a_network(&in_process), in_the_client(&at_client), in_a_lane(&in_lane)],
        goals: goals(&in_process, &at_client, &in_lane).into(),
    })
}

fn without_a_network(measured: &InProcess) -> Table {
    let row = |way: Way| {
        let (allocations, bytes) = measured.allocations[way as usize];
        vec![
            way.name().to_owned(),
            format::spread(measured.nanoseconds[way as usize], 0),
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
        vec![what.to_owned(), format::spread(nanoseconds, 0), allocations.to_string()]
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

fn in_a_lane(measured: &InOneLane) -> Table {
    let row = |order: Order| vec![order.name().to_owned(), format::spread(measured.microseconds[order as usize], 1)];
    Table {
        caption: "Calls of a client with a journal in memory".to_owned(),
        columns: ["10,000 calls", "µs of a call"].map(str::to_owned).into(),
        rows: Order::ALL.map(row).into(),
    }
}

fn goals(in_process: &InProcess, at_client: &AtClient, in_lane: &InOneLane) -> [Goal; 4] {
    let [(bare, _), (passed_through, _), ..] = in_process.allocations;
    let of_the_layer = Spread::of([passed_through as f64 - bare as f64]);
    let Spread { median, min, max } = at_client.of_the_layer;
    let microseconds = Spread { median: median / 1000.0, min: min / 1000.0, max: max / 1000.0 };
    let [bare, wrapped] = at_client.allocations;
    let client = "the client's layer, answered at once";
    [
        Goal::new("without a key", Bound::AtMost(0.0), of_the_layer, "allocations"),
        Goal::new(client, Bound::AtMost(5.0), microseconds, "µs"),
        Goal::new(client, Bound::AtMost(3.0), Spread::of([wrapped as f64 - bare as f64]), "allocations"),
        Goal::new("10,000 calls of one lane", Bound::AtMost(2.0), in_lane.ratio, "× the same calls without an order"),
    ]
}
