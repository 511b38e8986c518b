//! The section of the report.

use std::time::Duration;

use super::{
    CONCURRENCY, SMALL,
    contender::{
        BARE, Contender, FROM_MEMORY, GO_INTERCEPTOR, GO_INTERCEPTOR_PARSED, PRIMARY_KEY, RESERVED, RESERVED_HERE,
        RESERVED_PARSED, TRANSACTIONAL, TRANSACTIONAL_PARSED,
    },
    counts::Counts,
    load::Figures,
    turns::Turns,
};
use crate::{
    format,
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

/// The results of all measurements.
pub(crate) struct Findings {
    pub(crate) server: String,
    pub(crate) counts: Vec<(Contender, &'static str, Counts)>,
    pub(crate) first: Vec<Matrix>,
    pub(crate) again: Vec<Matrix>,
    /// First calls, and replays.
    pub(crate) in_process: [Turns; 2],
    pub(crate) distant: Distant,
}

/// Measurements in turn, with this number of concurrent callers and this size of payloads.
pub(crate) struct Matrix {
    pub(crate) concurrency: usize,
    pub(crate) payload: usize,
    pub(crate) turns: Turns,
}

/// Measurements in turn, with a slower network.
pub(crate) struct Distant {
    pub(crate) round_trip: Duration,
    /// First calls, one at a time.
    pub(crate) alone: Turns,
    /// First calls, many at once.
    pub(crate) many: Turns,
    /// Replays, one at a time.
    pub(crate) again: Turns,
}

const TEXT: &str = "\
The handler is the sample's CreateProject: BEGIN, the user, one INSERT whose trigger writes an outbox row, COMMIT, with statements \
parsed each time. Concurrent callers in the same process call it over HTTP/2 on the loopback interface; each makes its next call when \
the last one has been answered. Payloads are 100 bytes or 100 KB, and the response returns them. PostgreSQL runs on the same machine \
with its defaults (each commit is flushed to the disk) and 512 MB of shared buffers. Pools have 16 connections. \
The calls are those of two users, because one user has at most half of the transactions.

- **bare handler**: the handler without a guard.
- **Go interceptor**: the Go interceptor's statements around the same handler: set the user, look up, reserve, *handler*, complete, \
reset the user; for a replay set the user, look up, read the outbox, reset the user. Each statement is a round trip; *prepared*, as \
pgx does, or *parsed* each time.
- **reserved**, **transactional**: the two modes of the layer, with `PostgresStore::prepared_statements`, or *parsed*, its default. \
A transactional handler writes in the layer's transaction, and needs neither BEGIN nor the user nor COMMIT of its own.
- **same server**: `EffectPolicy::SameServer`, which suits this handler: the reservation does not wait for the disk.
- **primary-key SELECT**: one prepared SELECT of the response by primary key, without row-level security, in place of the handler. A \
replay that reads the database cannot be faster.
- **from memory**: a replay of a finished call that the process has answered before. All other replays have `replay_cache_bytes(0)`.

Replays use 512 keys in turn (64 with large payloads), and the work behind them is done. Own processor time is that of the process \
that calls and answers; PostgreSQL's is that of all its processes. Both are per call. The size of each response's payload is checked.
";

impl Findings {
    pub(crate) fn into_section(self) -> Section {
        Section {
            title: "Claim, complete and replay on PostgreSQL",
            text: format!("{TEXT}\n{}.", self.server),
            tables: self.tables(),
            goals: self.goals(),
        }
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.counts_table()];
        let matrices = [("First calls", BARE, &self.first), ("Replays", PRIMARY_KEY, &self.again)];
        for (what, to, matrices) in matrices {
            for Matrix { concurrency, payload, turns } in matrices {
                let size = format::bytes(*payload as f64);
                tables.push(figures_table(format!("{what}: {concurrency} at once, {size}"), turns, to));
            }
        }
        let [first, again] = &self.in_process;
        tables.push(figures_table(format!("First calls without HTTP/2: {CONCURRENCY} at once, 100 B"), first, BARE));
        tables.push(figures_table(format!("Replays without HTTP/2: {CONCURRENCY} at once, 100 B"), again, PRIMARY_KEY));
        let Distant { round_trip, alone, many, again } = &self.distant;
        let far = format!("a round trip takes {}", format::duration(round_trip.as_secs_f64()));
        tables.push(figures_table(format!("First calls, {far}: one at a time, 100 B"), alone, BARE));
        tables.push(figures_table(format!("First calls, {far}: {CONCURRENCY} at once, 100 B"), many, BARE));
        tables.push(figures_table(format!("Replays, {far}: one at a time, 100 B"), again, PRIMARY_KEY));
        tables
    }

    fn counts_table(&self) -> Table {
        let row = |(contender, what, counts): &(Contender, &'static str, Counts)| {
            vec![
                format!("{}, {what}", contender.name),
                format::with_decimals(counts.round_trips, 1),
                format::with_decimals(counts.log_bytes, 0),
                format::with_decimals(counts.index_entries, 1),
            ]
        };
        Table {
            caption:
                "Per call: round trips to the database, bytes of the write-ahead log without images of whole pages, \
                      and entries inserted into indexes (the second round trip of a transactional replay is its \
                      ROLLBACK, which no caller waits for)"
                    .to_owned(),
            columns: ["", "round trips", "log bytes", "index entries"].map(str::to_owned).to_vec(),
            rows: self.counts.iter().map(row).collect(),
        }
    }

    fn goals(&self) -> Vec<Goal> {
        [self.first_call_goals(), self.replay_goals()].concat()
    }

    fn first_call_goals(&self) -> Vec<Goal> {
        let (near, far) = (at_goal(&self.first), &self.distant.alone);
        let throughput = |call: &str, of, to, bound, limit| throughput(&near_by(call), near, of, to, bound, limit);
        let above_bare = |of: Contender, bound, limit| Goal {
            measure: format!("first call, {}, 1 ms round trips: median latency above the bare handler's", of.name),
            bound: Bound::AtMost(bound),
            figure: far.latency_above(of, BARE, self.distant.round_trip),
            unit: "round trips".to_owned(),
            limit,
        };
        let (first, reserved) = (Some(FIRST_LIMIT), Some(RESERVED_LIMIT));
        vec![
            throughput("first call, transactional", TRANSACTIONAL, BARE, 0.70, None),
            throughput("first call, transactional", TRANSACTIONAL, GO_INTERCEPTOR, 2.4, first),
            throughput("first call, transactional, parsed", TRANSACTIONAL_PARSED, GO_INTERCEPTOR_PARSED, 2.4, first),
            throughput("first call, reserved, same server", RESERVED_HERE, GO_INTERCEPTOR, 1.6, reserved),
            throughput("first call, reserved, parsed", RESERVED_PARSED, GO_INTERCEPTOR_PARSED, 1.6, reserved),
            self::throughput(
                &far_away("first call, transactional"),
                far,
                TRANSACTIONAL,
                GO_INTERCEPTOR,
                2.4,
                Some(FAR_LIMIT),
            ),
            above_bare(TRANSACTIONAL, 1.0, None),
            above_bare(RESERVED_HERE, 2.0, Some(FLUSH_LIMIT)),
        ]
    }

    fn replay_goals(&self) -> Vec<Goal> {
        let (near, far) = (at_goal(&self.again), &self.distant.again);
        let near = |call: &str, of, to, bound, limit| throughput(&near_by(call), near, of, to, bound, Some(limit));
        let distant = |call: &str, of, to, bound, limit| throughput(&far_away(call), far, of, to, bound, Some(limit));
        let above_select = |of: Contender| Goal {
            measure: format!("replay, {}, 1 ms round trips: median latency above a call's with one SELECT", of.name),
            bound: Bound::AtMost(0.5),
            figure: far.latency_above(of, PRIMARY_KEY, self.distant.round_trip),
            unit: "round trips".to_owned(),
            limit: None,
        };
        vec![
            self.round_trips_goal(RESERVED, 1.0, None),
            self.round_trips_goal(TRANSACTIONAL, 1.0, Some(ROLLBACK_LIMIT)),
            above_select(RESERVED),
            above_select(TRANSACTIONAL),
            near("replay, reserved", RESERVED, PRIMARY_KEY, 0.85, SELECT_LIMIT),
            near("replay, transactional", TRANSACTIONAL, PRIMARY_KEY, 0.85, SELECT_LIMIT),
            near("replay, reserved", RESERVED, GO_INTERCEPTOR, 3.0, REPLAY_LIMIT),
            distant("replay, reserved", RESERVED, PRIMARY_KEY, 0.85, SELECT_LIMIT),
            distant("replay, transactional", TRANSACTIONAL, PRIMARY_KEY, 0.85, FAR_SELECT_LIMIT),
            distant("replay, reserved", RESERVED, GO_INTERCEPTOR, 3.0, REPLAY_LIMIT),
            self.round_trips_goal(FROM_MEMORY, 0.0, None),
        ]
    }

    fn round_trips_goal(&self, of: Contender, bound: f64, limit: Option<&'static str>) -> Goal {
        let replays = self.counts.iter().filter(|(contender, call, _)| *contender == of && *call == "replay");
        Goal {
            measure: format!("replay, {}: round trips", of.name),
            bound: Bound::AtMost(bound),
            figure: Spread::of(replays.map(|(_, _, counts)| counts.round_trips)),
            unit: "round trips".to_owned(),
            limit,
        }
    }
}

const FIRST_LIMIT: &str = "\
    The Go interceptor is fast here already. Where a round trip costs almost nothing, its throughput is a large part of the bare \
    handler's (see the table of 16 at once). 2.4 times that is about the bare handler's own throughput or more, which leaves nothing \
    for writing a record.";

const FAR_LIMIT: &str = "\
    Processor time and one flush. Of nine round trips three are left, and of three flushes one, but the processor time of the handler \
    itself stays. Longer round trips bring the ratio nearer to three; shorter ones bring it nearer to that of 16 at once.";

const RESERVED_LIMIT: &str = "\
    The reservation has two transactions of its own, as the Go interceptor's has: an insert with its index entries, and an update. \
    With the database on the same machine they are most of the cost that either adds to the handler (see PostgreSQL's processor time \
    in the table of 16 at once), and the round trips saved are the rest. To pass this limit takes transactional mode, which writes \
    one row in the handler's own transaction, or claims of several calls in one statement, which would make calls wait for others.";

const FLUSH_LIMIT: &str = "\
    The disk. Beyond its two round trips, a reserved call waits for the flush of the completed record, as it has to: otherwise a crash \
    would lose an outcome that was answered. In the table of one at a time, each commit that waits adds a flush to the latency. \
    Transactional mode has one flush in all, the handler's own.";

const SELECT_LIMIT: &str = "\
    Processor time of PostgreSQL (see the table of 16 at once). A replay calls one function that sets the user, reads the record under \
    row-level security, and reads the outbox in a block that survives its errors; the SELECT is a prepared look-up without any of \
    that. A transactional replay adds BEGIN, two locks and a ROLLBACK. To pass this limit, a replay would have to do without \
    row-level security or without its status. Where round trips count, a reserved procedure meets its goal; from memory every \
    replay does.";

const FAR_SELECT_LIMIT: &str = "\
    Processor time of PostgreSQL: BEGIN, two locks and a ROLLBACK beside the look-up. The caller waits for one round trip all the same.";

const ROLLBACK_LIMIT: &str = "\
    The ROLLBACK. It follows the answer, so the caller does not wait for it, but the connection does. Without it, first calls would \
    have to look before they begin, which is one round trip more for each.";

const REPLAY_LIMIT: &str = "\
    Processor time of PostgreSQL: the Go interceptor's four statements are small and prepared. The goal is met where round trips \
    count, because the Go interceptor makes four of them, and from memory.";

fn near_by(call: &str) -> String {
    format!("{call}, {CONCURRENCY} at once")
}

fn far_away(call: &str) -> String {
    format!("{call}, 1 ms round trips, one at a time")
}

fn throughput(
    measure: &str,
    turns: &Turns,
    of: Contender,
    to: Contender,
    bound: f64,
    limit: Option<&'static str>,
) -> Goal {
    Goal {
        measure: format!("{measure}: throughput"),
        bound: Bound::AtLeast(bound),
        figure: turns.throughput_ratio(of, to),
        unit: format!("× {}", to.name),
        limit,
    }
}

/// Returns the measurements at the concurrency and the payload of the goals.
fn at_goal(matrices: &[Matrix]) -> &Turns {
    let here = matrices.iter().find(|matrix| matrix.concurrency == CONCURRENCY && matrix.payload == SMALL);
    &here.expect("its concurrency and payload are measured").turns
}

fn figures_table(caption: String, turns: &Turns, to: Contender) -> Table {
    let row = |contender: Contender| {
        let duration = |of: fn(&Figures) -> Duration| {
            format::duration(turns.spread(contender, |figures| of(figures).as_secs_f64()).median)
        };
        vec![
            contender.name.to_owned(),
            format::rate(turns.spread(contender, |figures| figures.throughput).median),
            format::spread_with_decimals(turns.throughput_ratio(contender, to), 2),
            duration(|figures| figures.p50),
            duration(|figures| figures.p99),
            duration(|figures| figures.own_processor),
            duration(|figures| figures.server_processor),
        ]
    };
    Table {
        caption,
        columns: ["", "throughput", &format!("× {}", to.name), "p50", "p99", "own processor time", "PostgreSQL's"]
            .map(str::to_owned)
            .to_vec(),
        rows: turns.contenders().map(row).collect(),
    }
}
