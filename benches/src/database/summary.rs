//! Summarizes the costs of the layer and of hand-written code in one table.

use std::time::Duration;

use super::{
    contender::{
        BARE, Contender, FLOOR, FROM_MEMORY, INSERT_FIRST, PRIMARY_KEY, RESERVED, RESERVED_HERE, SEQUENCE,
        TRANSACTIONAL,
    },
    load::Figures,
    matrix::{self, Matrix},
    plan::{Call, SEVERAL, SMALL},
};
use crate::{format, section::Table};

/// The rows of the table, by call; the first one of each is what the others are compared with.
const ROWS: [(Call, &[Contender]); 2] = [
    (Call::First, &[BARE, RESERVED, RESERVED_HERE, TRANSACTIONAL, FLOOR, INSERT_FIRST, SEQUENCE]),
    (Call::Replay, &[PRIMARY_KEY, RESERVED, TRANSACTIONAL, FROM_MEMORY]),
];

/// Returns the table of measurements next door and further away, where the shortest statement takes `round_trip`.
pub(super) fn table(near: &[Matrix], far: &[Matrix], round_trip: Duration) -> Table {
    let away = format::duration(round_trip.as_secs_f64());
    let columns = [
        "",
        "next door: latency",
        &format!("throughput, {SEVERAL} at once"),
        "PostgreSQL's processor time",
        &format!("{away} away: latency"),
        &format!("throughput, {SEVERAL} at once"),
        "PostgreSQL's processor time",
    ];
    let rows = ROWS.iter().flat_map(|(call, contenders)| {
        contenders.iter().map(|of| {
            let figures = [near, far].map(|place| cells(place, *call, *of)).concat();
            [vec![format!("{}: {}", call.name(), of.name)], figures].concat()
        })
    });
    Table {
        caption: format!(
            "Small responses (100 B): what a call has beyond the bare handler, or a replay beyond a call with one SELECT by primary key. \
             Latency: the median of one call at a time; throughput and processor time: {SEVERAL} callers at once. Next door: PostgreSQL on \
             the same machine; {away} away: with a round trip of that time"
        ),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// The cells of one place: absolute figures for what the others are compared with, and differences for them.
fn cells(place: &[Matrix], call: Call, of: Contender) -> [String; 3] {
    let [alone, several] = [1, SEVERAL].map(|concurrency| matrix::at(place, call, concurrency, SMALL));
    let p50 = |figures: &Figures| figures.p50.as_secs_f64();
    let server = |figures: &Figures| figures.server_processor.as_secs_f64();
    let base = call.base();
    if of == base {
        return [
            format::duration(alone.turns.spread(of, p50).median),
            format::rate(several.turns.spread(of, |figures| figures.throughput).median),
            format::duration(several.turns.spread(of, server).median),
        ];
    }
    let ratio = several.turns.throughput_ratio(of, base);
    [
        difference(alone.turns.above(of, base, p50).median),
        format!("× {}", format::spread(ratio, 2)),
        difference(several.turns.above(of, base, server).median),
    ]
}

/// Writes how far a time is above another: `+1.23 ms`.
fn difference(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "−" } else { "+" };
    format!("{sign}{}", format::duration(seconds.abs()))
}
