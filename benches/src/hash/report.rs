//! The section of the report.

use super::{
    measurement::{Encoding, Measurement},
    shape::ShapeId,
    way::Way,
};
use crate::{
    format,
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

pub(super) fn section(measurements: &[Measurement]) -> Section {
    Section {
        title: "The request hash",
        text: TEXT.to_owned(),
        summary: None,
        tables: Encoding::ALL.map(|encoding| table(measurements, encoding)).into(),
        goals: goals(measurements),
    }
}

const TEXT: &str = "\
Before the layer calls the database, it hashes the request message of every call with a key. All encodings of a message have \
the same hash. `Canonical::hash` reads the bytes by the message's descriptor: if they are canonical, it hashes them in place; if \
not, it writes the canonical encoding and hashes that.

It is compared with SHA-256 of the same bytes with the same crate, which is the lower bound, and with the alternative: decode the \
message and encode it again in a fixed order, as a `DynamicMessage` whose maps are sorted while they are written: a layer around any \
service does not know the generated type. Before it is measured, each has to give the same hash for a canonical and for another encoding. The ways take turns, and ratios are taken \
within a round. Allocations are counted separately from the time.";

fn table(measurements: &[Measurement], encoding: Encoding) -> Table {
    let rows = measurements.iter().filter(|measurement| measurement.encoding == encoding).map(|measurement| {
        let mut row = vec![label(measurement), measurement.bytes.to_string()];
        row.extend(Way::ALL.map(|way| {
            let (time, allocations) = (format::spread(measurement.nanoseconds(way), 0), measurement.allocations(way));
            match way {
                Way::Canonical => format!("{time}; {allocations}"),
                _ => {
                    let ratio = format::spread(measurement.ratio(way, Way::Canonical), 2);
                    format!("{time}; {allocations}; × {ratio}")
                }
            }
        }));
        row
    });
    let messages = match encoding {
        Encoding::Canonical => "canonical messages",
        Encoding::Other => "messages that are not canonical",
    };
    let columns = ["message", "bytes"].into_iter().chain(Way::ALL.map(Way::name));
    Table {
        caption: format!(
            "Hash of {messages}: ns per call; allocations per call; the time, × that of `Canonical::hash`"
        ),
        columns: columns.map(str::to_owned).collect(),
        rows: rows.collect(),
    }
}

fn label(measurement: &Measurement) -> String {
    let name = measurement.shape.name();
    match measurement.encoding {
        Encoding::Canonical => name.to_owned(),
        Encoding::Other => format!("{name}: {}", measurement.shape.difference()),
    }
}

fn goals(measurements: &[Measurement]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for measurement in measurements {
        match measurement.encoding {
            Encoding::Canonical => goals.extend(canonical_goals(measurement)),
            Encoding::Other => {
                let measure = format!("hash of a message that is not canonical: {}", label(measurement));
                let ratio = measurement.ratio(Way::Dynamic, Way::Canonical);
                let goal = Goal::new(measure, Bound::AtLeast(5.0), ratio, "× faster than `DynamicMessage`");
                goals.push(Goal { limit: limit(measurement.shape).map(str::to_owned), ..goal });
            }
        }
    }
    let canonical = measurements.iter().filter(|measurement| measurement.encoding == Encoding::Canonical);
    let allocations = Spread::of(canonical.map(|measurement| measurement.allocations(Way::Canonical) as f64));
    let measure = "hash of a canonical message, of any shape";
    goals.push(Goal::new(measure, Bound::AtMost(0.0), allocations, "allocations"));
    goals
}

fn canonical_goals(measurement: &Measurement) -> Vec<Goal> {
    let goal = |bound, figure, unit| {
        Goal::new(format!("hash of a canonical message: {}", label(measurement)), bound, figure, unit)
    };
    let speed = |least| {
        goal(Bound::AtLeast(least), measurement.ratio(Way::Plain, Way::Canonical), "× the speed of plain SHA-256")
    };
    let (time, faster) =
        (measurement.ratio(Way::Canonical, Way::Plain), measurement.ratio(Way::Dynamic, Way::Canonical));
    match measurement.shape {
        ShapeId::Text => vec![speed(0.9)],
        ShapeId::Map => vec![speed(0.4)],
        ShapeId::Labels => vec![
            goal(Bound::AtMost(3.0), time, "× the time of plain SHA-256"),
            goal(Bound::AtLeast(10.0), faster, "× faster than `DynamicMessage`"),
        ],
        _ => Vec::new(),
    }
}

/// Returns what limits the hash of a message that is not canonical.
fn limit(shape: ShapeId) -> Option<&'static str> {
    match shape {
        ShapeId::Cyrillic | ShapeId::Text => Some(
            "SHA-256 itself, which both ways run over the same 4 KiB: it alone takes more than a fifth of the time of the \
             `DynamicMessage` way. Only another hash would pass this limit, and stored hashes would no longer match those \
             of the Go interceptor.",
        ),
        ShapeId::Small => Some(
            "SHA-256 itself: one block of it takes more than a fifth of the time of the `DynamicMessage` way. Only another hash \
             would pass this limit, and stored hashes would no longer match those of the Go interceptor.",
        ),
        _ => None,
    }
}
