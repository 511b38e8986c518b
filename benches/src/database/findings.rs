//! The section of the report.

use std::time::Duration;

use super::{
    allocations::Allocations,
    contender::Contender,
    counts::Counts,
    goals::Aim,
    in_flight::{HELD, InFlight, RATE, ROUNDS},
    load::Figures,
    matrix::Matrix,
    summary::Places,
};
use crate::{
    format,
    section::{Section, Table},
};

const TITLE: &str = "Claim, complete and replay on PostgreSQL";

/// The results of all measurements.
pub(super) struct Findings {
    pub(super) server: String,
    pub(super) counts: Vec<(Contender, &'static str, Counts)>,
    pub(super) near: Vec<Matrix>,
    pub(super) in_flight: InFlight,
    pub(super) allocations: Allocations,
    pub(super) in_process: Vec<Matrix>,
    pub(super) distant: Distant,
    pub(super) aims: Vec<Aim>,
}

/// Measurements with a slower network.
pub(super) struct Distant {
    pub(super) round_trip: Duration,
    pub(super) matrices: Vec<Matrix>,
}

const TEXT: &str = "\
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
- **Go interceptor**: the statements of the Go interceptor around the same handler, on one pool for both. Their order is that of its \
design, FUN-15, sections 2.2 (*Lifecycle*) and 2.5 (*Status resolution*). pgx acquires a connection for each statement, and a hook of the \
pool sets the user for row-level security (3.1) before it, and resets it when the connection is released, which no caller waits for. \
For a first call, *leanest wiring*: (user, look up), (user, reserve), the handler's BEGIN, user, INSERT and COMMIT, (user, complete): 10 \
statements that are awaited, and 3 resets. *As its product wires it*, the hook sets and resets the organisation, too, and the handler is on \
the same pool: (organisation, user, look up), the same with reserve, with BEGIN, INSERT and COMMIT, and with complete: 14, and 8 resets. For \
a replay: (user, look up), (user, read the outbox): 4 and 2, or 6 and 4. Statements are prepared, as pgx does.
- **primary-key SELECT**: one prepared SELECT of the response by primary key, without row-level security, in place of the handler.
- **from memory**: a replay of a finished call that the process has answered before. All other replays have `replay_cache_bytes(0)`.
- **parsed**: its statements are parsed and planned each time (`PreparedStatements::Never`), as behind a pooler that does not track prepared statements.

Replays use 256 keys in turn (64 with large payloads), and the work behind them is done. Own processor time is that of the process \
that calls and answers; PostgreSQL's is that of all its processes. Both are per call. The size of each response's payload is checked.
";

impl Findings {
    pub(super) fn into_section(self) -> Section {
        let Distant { round_trip, matrices } = &self.distant;
        let places = Places { near: &self.near, far: matrices, round_trip: *round_trip };
        Section {
            title: TITLE,
            text: format!("{TEXT}\n{}.", self.server),
            summary: Some(places.summary()),
            tables: self.tables(),
            goals: self.aims.into_iter().map(|aim| aim.goal).chain(self.allocations.goals()).collect(),
        }
    }

    fn tables(&self) -> Vec<Table> {
        let far = format::duration(self.distant.round_trip.as_secs_f64());
        let mut tables = vec![self.counts_table()];
        tables.extend(self.near.iter().map(|matrix| figures_table(matrix, "")));
        tables.extend(self.in_process.iter().map(|matrix| figures_table(matrix, ", without HTTP/2")));
        let far = format!(", a round trip takes {far}");
        tables.extend(self.distant.matrices.iter().map(|matrix| figures_table(matrix, &far)));
        tables.push(in_flight_table(&self.in_flight));
        tables.extend(self.allocations.tables());
        tables
    }

    fn counts_table(&self) -> Table {
        let row = |(contender, what, counts): &(Contender, &'static str, Counts)| {
            vec![
                format!("{what}, {}", contender.name),
                format::with_decimals(counts.round_trips, 1),
                format::with_decimals(counts.log_bytes, 0),
                format::with_decimals(counts.index_entries, 1),
            ]
        };
        Table {
            caption: "Per call, one at a time: round trips to the database, bytes of the write-ahead log without images of whole \
                      pages, and entries inserted into indexes (round trips that no caller waits for are counted, too: the \
                      resets of the Go interceptor, 3 or 8 of a first call and 2 or 4 of a replay, and the ROLLBACK of a \
                      transaction that nothing was written in)"
                .to_owned(),
            columns: ["", "round trips", "log bytes", "index entries"].map(str::to_owned).to_vec(),
            rows: self.counts.iter().map(row).collect(),
        }
    }
}

/// Returns the section of a run that measures the goals only.
pub(super) fn of_goals(server: &str, near: &[Matrix], in_flight: &InFlight, aims: Vec<Aim>) -> Section {
    let mut tables: Vec<_> = near.iter().map(|matrix| figures_table(matrix, "")).collect();
    tables.push(in_flight_table(in_flight));
    Section {
        title: TITLE,
        text: format!("The rows that have goals, with the contenders that these compare.\n\n{server}."),
        summary: None,
        tables,
        goals: aims.into_iter().map(|aim| aim.goal).collect(),
    }
}

/// Returns the section of a run that counts allocations only.
pub(super) fn of_allocations(server: &str, allocations: &Allocations) -> Section {
    Section {
        title: TITLE,
        text: format!("Allocations alone.\n\n{server}."),
        summary: None,
        tables: allocations.tables().into(),
        goals: allocations.goals().into(),
    }
}

fn in_flight_table(in_flight: &InFlight) -> Table {
    let duration = |spread: crate::spread::Spread| format::duration(spread.median);
    let row = |(index, held): (usize, usize)| {
        vec![format::figure(held as f64), duration(in_flight.p50(index)), duration(in_flight.p99(index))]
    };
    Table {
        caption: format!(
            "A server in reserved mode with calls in flight whose handlers wait, without a connection: latencies of the {RATE} \
             first calls per second that arrive beside them, whatever it does ({ROUNDS} rounds; its store and its handlers share a pool, of \
             whose connections it had {} at most)",
            in_flight.connections
        ),
        columns: ["in flight", "p50", "p99"].map(str::to_owned).to_vec(),
        rows: HELD.into_iter().enumerate().map(row).collect(),
    }
}

fn figures_table(matrix: &Matrix, how: &str) -> Table {
    let (turns, base) = (&matrix.turns, matrix.row.call.base());
    let row = |contender: Contender| {
        let duration = |of: fn(&Figures) -> Duration| {
            format::duration(turns.spread(contender, |figures| of(figures).as_secs_f64()).median)
        };
        let has_base = matrix.row.contenders.contains(&base);
        vec![
            contender.name.to_owned(),
            format::rate(turns.spread(contender, |figures| figures.throughput).median),
            if has_base {
                format::spread_with_decimals(turns.throughput_ratio(contender, base), 2)
            } else {
                String::new()
            },
            duration(|figures| figures.p50),
            duration(|figures| figures.p99),
            duration(|figures| figures.own_processor),
            duration(|figures| figures.server_processor),
        ]
    };
    Table {
        caption: format!("{}{how}", matrix.caption()),
        columns: ["", "throughput", &format!("× {}", base.name), "p50", "p99", "own processor time", "PostgreSQL's"]
            .map(str::to_owned)
            .to_vec(),
        rows: turns.contenders().map(row).collect(),
    }
}
