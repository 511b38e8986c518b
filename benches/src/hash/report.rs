//! The section of the report.

use super::{
    measurement::{Encoding, Measurement},
    shape::ShapeId,
    way::Way,
};
use crate::{
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

pub(super) fn section(measurements: &[Measurement]) -> Section {
    Section {
        title: "The request hash",
        text: TEXT.to_owned(),
        summary: None,
        tables: Encoding::ALL.into_iter().flat_map(|encoding| tables(measurements, encoding)).collect(),
        goals: goals(measurements),
    }
}

const TEXT: &str = "\
Before the layer calls the database, it hashes the request message of every call with a key. All encodings of a message have \
the same hash. `Canonical::hash` reads the bytes by the message's descriptor: if they are canonical, it hashes them in place; if \
not, it writes the canonical encoding and hashes that.

It is compared with SHA-256 of the same bytes with the same crate, which is the lower bound, and with the alternative: decode the \
message and encode it again in a fixed order. That works with the generated type if its maps are `BTreeMap`s (a layer around any \
service does not know the type), or with a `DynamicMessage` whose maps are sorted while they are written. Before it is measured, \
each of these has to give the same hash for a canonical and for another encoding. The ways take turns, and ratios are taken \
within a round. Allocations are counted separately from the time.";

fn tables(measurements: &[Measurement], encoding: Encoding) -> [Table; 2] {
    let of_encoding = || measurements.iter().filter(move |measurement| measurement.encoding == encoding);
    let columns = |first: &[&str]| {
        let ways = Way::ALL.iter().map(|way| way.name());
        first.iter().copied().chain(ways).map(str::to_owned).collect::<Vec<_>>()
    };
    let times = of_encoding().map(|measurement| {
        let mut row = vec![label(measurement), measurement.bytes.to_string()];
        row.extend(Way::ALL.map(|way| {
            let (call, byte) = (measurement.nanoseconds(way), measurement.nanoseconds_per_byte(way));
            format!("{call:.0}; {:.2}; {}", byte.median, measurement.allocations(way))
        }));
        row
    });
    let ratios = of_encoding().map(|measurement| {
        let ratios = Way::ALL[1..].iter().map(|way| measurement.ratio(*way, Way::Canonical).to_string());
        std::iter::once(label(measurement)).chain(ratios).collect()
    });
    let encoding = match encoding {
        Encoding::Canonical => "canonical messages",
        Encoding::Other => "messages that are not canonical",
    };
    let mut ratio_columns = columns(&["message"]);
    ratio_columns.remove(1);
    [
        Table {
            caption: format!("Hash of {encoding}: ns per call (and the spread); ns per byte; allocations per call"),
            columns: columns(&["message", "bytes"]),
            rows: times.collect(),
        },
        Table {
            caption: format!("Hash of {encoding}: the time of the other ways, × that of `Canonical::hash`"),
            columns: ratio_columns,
            rows: ratios.collect(),
        },
    ]
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
            Encoding::Other => goals.push(Goal {
                measure: format!("hash of a message that is not canonical: {}", label(measurement)),
                bound: Bound::AtLeast(5.0),
                figure: measurement.ratio(Way::Dynamic, Way::Canonical),
                unit: "× faster than `DynamicMessage`".to_owned(),
                limit: limit(measurement.shape).map(str::to_owned),
            }),
        }
    }
    let canonical = measurements.iter().filter(|measurement| measurement.encoding == Encoding::Canonical);
    goals.push(Goal {
        measure: "hash of a canonical message, of any shape".to_owned(),
        bound: Bound::AtMost(0.0),
        figure: Spread::of(canonical.map(|measurement| measurement.allocations(Way::Canonical) as f64)),
        unit: "allocations".to_owned(),
        limit: None,
    });
    goals
}

fn canonical_goals(measurement: &Measurement) -> Vec<Goal> {
    let goal = |bound, figure, unit: &str| Goal {
        measure: format!("hash of a canonical message: {}", label(measurement)),
        bound,
        figure,
        unit: unit.to_owned(),
        limit: None,
    };
    let speed = measurement.ratio(Way::Plain, Way::Canonical);
    match measurement.shape {
        ShapeId::Text => vec![goal(Bound::AtLeast(0.9), speed, "× the speed of plain SHA-256")],
        ShapeId::Map => vec![goal(Bound::AtLeast(0.4), speed, "× the speed of plain SHA-256")],
        ShapeId::Labels => vec![
            goal(Bound::AtMost(3.0), measurement.ratio(Way::Canonical, Way::Plain), "× the time of plain SHA-256"),
            goal(
                Bound::AtLeast(10.0),
                measurement.ratio(Way::Dynamic, Way::Canonical),
                "× faster than `DynamicMessage`",
            ),
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
