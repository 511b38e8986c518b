//! The section of the report.

use std::time::Duration;

use super::{
    allocations::Allocations,
    contender::Contender,
    in_flight::{HELD, InFlight, RATE, ROUNDS},
    load::Figures,
    matrix::Matrix,
    summary,
};
use crate::{
    format,
    section::{Goal, Section, Table},
};

/// The results of all measurements.
pub(super) struct Findings {
    pub(super) server: String,
    pub(super) allocations: Allocations,
    pub(super) near: Vec<Matrix>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) goals: Vec<Goal>,
    pub(super) distant: Option<Distant>,
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

impl Findings {
    pub(super) fn into_section(self) -> Section {
        let summary = self
            .distant
            .as_ref()
            .map(|Distant { round_trip, matrices }| summary::table(&self.near, matrices, *round_trip));
        let tables = self.tables();
        Section {
            title: "Claim, complete and replay on PostgreSQL",
            text: format!("{TEXT}\n{}.", self.server),
            summary,
            tables,
            goals: self.goals.into_iter().chain(self.allocations.goals()).collect(),
        }
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<_> = self.near.iter().map(|matrix| figures_table(matrix, "")).collect();
        if let Some(Distant { round_trip, matrices }) = &self.distant {
            let far = format!(", a round trip takes {}", format::duration(round_trip.as_secs_f64()));
            tables.extend(matrices.iter().map(|matrix| figures_table(matrix, &far)));
        }
        tables.extend(self.in_flight.as_ref().map(in_flight_table));
        tables.extend(self.allocations.tables());
        tables
    }
}

fn in_flight_table(in_flight: &InFlight) -> Table {
    let row = |(index, held): (usize, usize)| {
        let latency = |of| format::duration(in_flight.latency(index, of).median);
        vec![format::figure(held as f64), latency(|latencies| latencies.p50), latency(|latencies| latencies.p99)]
    };
    Table {
        caption: format!(
            "A server in reserved mode with calls in flight whose handlers wait, without a connection: latencies of the {RATE} \
             first calls per second that arrive beside them, whatever it does ({ROUNDS} rounds; its store and its handlers share a pool)"
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
        vec![
            contender.name.to_owned(),
            format::rate(turns.spread(contender, |figures| figures.throughput).median),
            format::spread(turns.throughput_ratio(contender, base), 2),
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
