//! The section of the report.

use std::time::Duration;

use super::{
    contender::{
        BARE, Contender, FLOOR, FROM_MEMORY, INSERT_FIRST, PRIMARY_KEY, RESERVED, RESERVED_HERE, SEQUENCE,
        TRANSACTIONAL,
    },
    load::Figures,
    plan::{Call, ROUNDS, Row, SEVERAL, SMALL},
    turns::Turns,
};
use crate::report::{seconds, table};

/// Measurements in turn, under one load.
pub(super) struct Matrix {
    pub(super) row: Row,
    pub(super) turns: Turns,
}

/// Returns the measurements under this load.
pub(super) fn at(matrices: &[Matrix], call: Call, concurrency: usize, payload: usize) -> &Turns {
    let here = matrices
        .iter()
        .find(|Matrix { row, .. }| (row.call, row.concurrency, row.payload) == (call, concurrency, payload));
    &here.expect("the plan has this load").turns
}

pub(super) const TEXT: &str = "\
The handler is a CreateProject like the sample's: BEGIN, the user, one INSERT whose trigger writes an outbox row, COMMIT, with prepared \
statements and without any delay. Concurrent callers in the same process call it over HTTP/2 on the loopback interface; each makes its next call when \
the last one has been answered. Payloads are 100 bytes or 100 KB, and the response returns them. PostgreSQL runs on the same machine \
with its defaults (each commit is flushed to the disk) and 512 MB of shared buffers. Pools have 16 connections. \
The calls are those of two users, because one user has at most half of the transactions. Everything is **as it comes**, with its own \
defaults, unless its name says otherwise.

- **bare handler**: the handler without a guard.
- **reserved**, **transactional**: the two modes of the layer. The store has a pool of its own, as in the sample. A transactional handler \
writes in the layer's transaction, and needs neither BEGIN nor the user nor COMMIT of its own.
- **same server**: `EffectPolicy::SameServer`, which suits this handler: the reservation does not wait for the disk.
- **without batches**: `max_batch(1)`, so that no call shares a statement with others. One call at a time has nothing to share: there \
this is what batches may not make slower.
- **Go interceptor, leanest wiring**: the statements of the Go interceptor around the same handler, on one pool for both. Their order is that of its \
design, FUN-15, sections 2.2 (*Lifecycle*) and 2.5 (*Status resolution*). pgx acquires a connection for each statement, and a hook of the \
pool sets the user for row-level security (3.1) before it, and resets it when the connection is released, which no caller waits for. \
For a first call: (user, look up), (user, reserve), the handler's BEGIN, user, INSERT and COMMIT, (user, complete): 10 \
statements that are awaited, and 3 resets. For a replay: (user, look up), (user, read the outbox): 4 and 2. Statements are prepared, as pgx does.
- **primary-key SELECT**: one prepared SELECT of the response by primary key, without row-level security, in place of the handler.
- **from memory**: a replay of a finished call that the process has answered before. All other replays have `replay_cache_bytes(0)`.
- **parsed**: its statements are parsed and planned each time (`PreparedStatements::Never`), as behind a pooler that does not track prepared statements.

Replays use 256 keys in turn, and the work behind them is done. Own processor time is that of the process \
that calls and answers; PostgreSQL's is that of all its processes. Both are per call. The size of each response's payload is checked.
";

/// Returns the figures of a row. `how` says of its network what is not usual.
pub(super) fn figures_table(Matrix { row, turns }: &Matrix, how: &str) -> String {
    let Row { call, concurrency, payload, turn, .. } = *row;
    let base = call.base();
    let cells = |contender: Contender| {
        let duration =
            |of: fn(&Figures) -> Duration| seconds(turns.spread(contender, |figures| of(figures).as_secs_f64()).median);
        [
            contender.name.to_owned(),
            turns.rate(contender),
            turns.ratio(contender, base, |figures| figures.throughput).with_decimals(2),
            duration(|figures| figures.p50),
            duration(|figures| figures.p99),
            duration(|figures| figures.own_processor),
            duration(|figures| figures.server_processor),
        ]
    };
    let caption =
        format!("{}s: {concurrency} at once, {payload} bytes ({ROUNDS} rounds of {turn:?}){how}", call.name());
    let over = format!("× {}", base.name);
    let columns = ["", "throughput", &over, "p50", "p99", "own processor time", "PostgreSQL's"];
    table(&caption, columns, turns.contenders().map(cells))
}

/// The rows of the summary, by call; the first one of each is what the others are compared with.
const SUMMARY: [(Call, &[Contender]); 2] = [
    (Call::First, &[BARE, RESERVED, RESERVED_HERE, TRANSACTIONAL, FLOOR, INSERT_FIRST, SEQUENCE]),
    (Call::Replay, &[PRIMARY_KEY, RESERVED, TRANSACTIONAL, FROM_MEMORY]),
];

/// Returns the costs of the layer and of hand-written code, next door and further away, where the shortest statement takes
/// `round_trip`.
pub(super) fn summary(near: &[Matrix], far: &[Matrix], round_trip: Duration) -> String {
    let away = seconds(round_trip.as_secs_f64());
    let (throughput, latency) = (format!("throughput, {SEVERAL} at once"), format!("{away} away: latency"));
    let processor = "PostgreSQL's processor time";
    let columns = ["", "next door: latency", &throughput, processor, &latency, &throughput, processor];
    let rows = SUMMARY.iter().flat_map(|(call, contenders)| {
        contenders.iter().map(|of| {
            let [[a, b, c], [d, e, f]] = [near, far].map(|place| cells(place, *call, *of));
            [format!("{}: {}", call.name(), of.name), a, b, c, d, e, f]
        })
    });
    let caption = format!(
        "Small responses (100 B): what a call has beyond the bare handler, or a replay beyond a call with one SELECT by primary key. \
         Latency: the median of one call at a time; throughput and processor time: {SEVERAL} callers at once. Next door: PostgreSQL on \
         the same machine; {away} away: with a round trip of that time"
    );
    table(&caption, columns, rows)
}

/// The cells of one place: absolute figures for what the others are compared with, and differences for them.
fn cells(place: &[Matrix], call: Call, of: Contender) -> [String; 3] {
    let [alone, several] = [1, SEVERAL].map(|concurrency| at(place, call, concurrency, SMALL));
    let p50 = |figures: &Figures| figures.p50.as_secs_f64();
    let server = |figures: &Figures| figures.server_processor.as_secs_f64();
    let base = call.base();
    if of == base {
        return [seconds(alone.spread(of, p50).median), several.rate(of), seconds(several.spread(of, server).median)];
    }
    let difference = |turns: &Turns, figure: fn(&Figures) -> f64| {
        let above = turns.above(of, base, figure).median;
        format!("{}{}", if above < 0.0 { "−" } else { "+" }, seconds(above.abs()))
    };
    let ratio = several.ratio(of, base, |figures| figures.throughput);
    [difference(alone, p50), format!("× {}", ratio.with_decimals(2)), difference(several, server)]
}
