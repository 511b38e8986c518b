//! Summarizes the costs of the layer and of hand-written code, in four sentences and one table.

use std::time::Duration;

use super::{
    contender::{
        BARE, Contender, FLOOR, FROM_MEMORY, GO_LEANEST, INSERT_FIRST, PRIMARY_KEY, RESERVED, RESERVED_HERE, SEQUENCE,
        TRANSACTIONAL,
    },
    load::Figures,
    matrix::Matrix,
    plan::{Call, SEVERAL, SMALL},
};
use crate::{
    format,
    section::{Summary, Table},
};

/// Measurements next door, and further away.
pub(super) struct Places<'a> {
    pub(super) near: &'a [Matrix],
    pub(super) far: &'a [Matrix],
    /// The time of the shortest statement, further away.
    pub(super) round_trip: Duration,
}

/// The rows of the table, by call; the first one of each is what the others are compared with.
const ROWS: [(Call, &[Contender]); 2] = [
    (Call::First, &[BARE, RESERVED, RESERVED_HERE, TRANSACTIONAL, FLOOR, INSERT_FIRST, SEQUENCE]),
    (Call::Replay, &[PRIMARY_KEY, RESERVED, TRANSACTIONAL, FROM_MEMORY]),
];

impl Places<'_> {
    pub(super) fn summary(&self) -> Summary {
        let far = format::duration(self.round_trip.as_secs_f64());
        let columns = [
            String::new(),
            "next door: latency".to_owned(),
            format!("throughput, {SEVERAL} at once"),
            "PostgreSQL's processor time".to_owned(),
            format!("{far} away: latency"),
            format!("throughput, {SEVERAL} at once"),
            "PostgreSQL's processor time".to_owned(),
        ];
        let rows = ROWS.iter().flat_map(|(call, contenders)| contenders.iter().map(|of| self.row(*call, *of)));
        Summary {
            sentences: [self.of_first_calls(), self.of_own_code(), self.of_replays(), self.of_processor_time()],
            table: Table {
                caption: format!(
                    "Small responses (100 B): what a call has beyond the bare handler, or a replay beyond a call with one SELECT by \
                     primary key. Latency: the median of one call at a time; throughput and processor time: {SEVERAL} callers at once. \
                     Next door: PostgreSQL on the same machine; {far} away: with a round trip of that time"
                ),
                columns: columns.to_vec(),
                rows: rows.collect(),
            },
        }
    }

    /// A row: absolute figures for what the others are compared with, and differences for them.
    fn row(&self, call: Call, of: Contender) -> Vec<String> {
        let figures = [self.near, self.far].map(|place| {
            let (alone, several) = (at(place, call, 1), at(place, call, SEVERAL));
            if of == call.base() {
                let throughput = several.turns.spread(of, |figures| figures.throughput).median;
                return [time(alone, of, p50), format::rate(throughput), time(several, of, server)];
            }
            let ratio = several.turns.throughput_ratio(of, call.base());
            [above(alone, of, p50), format!("× {}", format::spread_with_decimals(ratio, 2)), above(several, of, server)]
        });
        [vec![format!("{}: {}", call.name(), of.name)], figures.concat()].concat()
    }

    fn of_first_calls(&self) -> String {
        let first = |of| {
            let [near, far] = [self.near, self.far].map(|place| more(at(place, Call::First, 1), of, p50));
            let several = &at(self.near, Call::First, SEVERAL).turns;
            let kept = format::with_decimals(100.0 * several.throughput_ratio(of, BARE).median, 0);
            (near, far, kept)
        };
        let ((near, far, kept), (near_in, far_in, kept_in)) = (first(RESERVED), first(TRANSACTIONAL));
        let round_trip = format::duration(self.round_trip.as_secs_f64());
        format!(
            "**A first call** of a reserved procedure takes {near} than the bare handler with PostgreSQL next door, and {far} with \
             PostgreSQL {round_trip} away; {SEVERAL} callers at once keep {kept} % of their throughput (transactional: {near_in}, \
             {far_in}, and {kept_in} %)."
        )
    }

    fn of_own_code(&self) -> String {
        let several = at(self.near, Call::First, SEVERAL);
        let throughput = |of| format::with_decimals(several.turns.throughput_ratio(TRANSACTIONAL, of).median, 2);
        format!(
            "**Your own code**, with prepared statements in the handler's transaction, takes of PostgreSQL's processor time, beside the bare \
             handler: {} with an `INSERT` first, {} with a `SELECT` first (and then `INSERT` and `UPDATE`), {} with one plain `INSERT` of an \
             equal record, which is the least that is possible. A transactional procedure has {}, {} and {} times their throughput with \
             {SEVERAL} callers at once, and it also compares requests, excludes calls at the same time without making them wait, keeps final \
             errors, and looks a lost COMMIT up.",
            more(several, INSERT_FIRST, server),
            more(several, SEQUENCE, server),
            more(several, FLOOR, server),
            throughput(INSERT_FIRST),
            throughput(SEQUENCE),
            throughput(FLOOR),
        )
    }

    fn of_replays(&self) -> String {
        let answered = |place, of| time(at(place, Call::Replay, 1), of, p50);
        let ratio = |to| {
            let several = &at(self.near, Call::Replay, SEVERAL).turns;
            format::with_decimals(several.throughput_ratio(RESERVED, to).median, 2)
        };
        format!(
            "**A retry** is answered from the store in {} next door and in {} further away, at {} times the throughput of a SELECT by \
             primary key and {} times that of the Go interceptor's statements, and from memory in {}.",
            answered(self.near, RESERVED),
            answered(self.far, RESERVED),
            ratio(PRIMARY_KEY),
            ratio(GO_LEANEST),
            answered(self.near, FROM_MEMORY),
        )
    }

    fn of_processor_time(&self) -> String {
        let several = at(self.near, Call::First, SEVERAL);
        format!(
            "**PostgreSQL**'s processor time for a reserved first call is {} than the {} of the bare handler, for a transactional one {} (for \
             one behind the Go interceptor {}); a call without a key costs next to nothing (see [the layer](#the-layer)).",
            more(several, RESERVED, server),
            time(several, BARE, server),
            more(several, TRANSACTIONAL, server),
            more(several, GO_LEANEST, server),
        )
    }
}

fn p50(figures: &Figures) -> Duration {
    figures.p50
}

fn server(figures: &Figures) -> Duration {
    figures.server_processor
}

fn at(place: &[Matrix], call: Call, concurrency: usize) -> &Matrix {
    let here = place.iter().find(|matrix| matrix.is(call, concurrency, SMALL));
    here.expect("the rows of the summary are measured")
}

/// Returns a time of this contender.
fn time(matrix: &Matrix, of: Contender, time: fn(&Figures) -> Duration) -> String {
    format::duration(matrix.turns.spread(of, |figures| time(figures).as_secs_f64()).median)
}

/// Returns how far a time is above that of what the contender is compared with: `+1.23 ms`.
fn above(matrix: &Matrix, of: Contender, time: fn(&Figures) -> Duration) -> String {
    let seconds = difference(matrix, of, time);
    let sign = if seconds < 0.0 { "−" } else { "+" };
    format!("{sign}{}", format::duration(seconds.abs()))
}

/// Returns the same in words: `1.23 ms more`.
fn more(matrix: &Matrix, of: Contender, time: fn(&Figures) -> Duration) -> String {
    let seconds = difference(matrix, of, time);
    let word = if seconds < 0.0 { "less" } else { "more" };
    format!("{} {word}", format::duration(seconds.abs()))
}

/// Returns the median of the differences, round by round, in seconds.
fn difference(matrix: &Matrix, of: Contender, time: fn(&Figures) -> Duration) -> f64 {
    matrix.turns.above(of, matrix.row.call.base(), |figures| time(figures).as_secs_f64()).median
}
