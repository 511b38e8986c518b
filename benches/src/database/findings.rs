//! What was found out, as a section of the report.

use std::time::Duration;

use super::{
    CONCURRENCY, SMALL,
    contender::{
        BARE, Contender, FROM_MEMORY, FUN15, FUN15_PARSED, PRIMARY_KEY, RESERVED, RESERVED_HERE, RESERVED_PARSED,
        TRANSACTIONAL, TRANSACTIONAL_PARSED,
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

/// All of it.
pub(crate) struct Findings {
    pub(crate) server: String,
    pub(crate) counts: Vec<(Contender, &'static str, Counts)>,
    pub(crate) first: Vec<Matrix>,
    pub(crate) again: Vec<Matrix>,
    /// First calls, and replays.
    pub(crate) in_process: [Turns; 2],
    pub(crate) distant: Distant,
}

/// Turns taken by so many callers at once, with payloads of so many bytes.
pub(crate) struct Matrix {
    pub(crate) concurrency: usize,
    pub(crate) payload: usize,
    pub(crate) turns: Turns,
}

/// Turns taken with a server that is further away.
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
The handler is the sample's CreateProject: BEGIN, the user, one INSERT whose trigger writes an outbox row, COMMIT, its statements \
parsed each time. It is called with payloads of 100 bytes and of 100 KB, which its response brings back, over HTTP/2 on the loopback \
interface, by a closed loop of callers in the same process; PostgreSQL has its defaults (each commit is flushed to the disk) and 512 MB \
of shared buffers, on the same machine. Pools have 16 connections.

- **bare handler**: nothing around it.
- **FUN-15**: the sequence of its Go server around the same handler: set the user, look up, reserve, *handler*, complete, reset the user; \
for a replay set the user, look up, ask the outbox, reset the user. Each is a round trip; *prepared* as pgx has it, or *parsed* each time.
- **reserved**, **transactional**: the layer in its two modes, with `PostgresStore::prepared_statements`, or *parsed*, its default. \
A transactional handler writes in the layer's transaction, and so needs neither BEGIN nor the user nor COMMIT of its own.
- **same server**: `EffectPolicy::SameServer`, as suits this handler: the reservation does not wait for the disk.
- **primary-key SELECT**: in the handler's place one prepared SELECT of the response, by primary key, without row-level security: what a \
replay cannot be faster than, if it asks at all.
- **from memory**: a replay of a finished call that the process has given before. All other replays have `replay_cache_bytes(0)`.

Replays are of 512 keys (64 of large payloads) in turn, the work behind them done. Processor time is that of the process that calls \
and is called, and of all of PostgreSQL's. Calls are checked: each is answered with its own payload.
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
            caption: "For each call: round trips to the database, bytes of its log without images of whole pages, and \
                      entries put into indexes (the second round trip of a transactional replay is its ROLLBACK, for \
                      which nobody waits)"
                .to_owned(),
            columns: ["", "round trips", "log bytes", "index entries"].map(str::to_owned).to_vec(),
            rows: self.counts.iter().map(row).collect(),
        }
    }

    fn goals(&self) -> Vec<Goal> {
        let first = at_goal(&self.first);
        let again = at_goal(&self.again);
        let Distant { round_trip, alone, again: again_far, .. } = &self.distant;
        let ratio = |measure: &str, turns: &Turns, of: Contender, to: Contender, bound, limit| Goal {
            measure: format!("{measure}, {CONCURRENCY} at once: throughput"),
            bound: Bound::AtLeast(bound),
            figure: turns.throughput_ratio(of, to),
            unit: format!("× {}", to.name),
            limit,
        };
        let far_ratio = |measure: &str, turns: &Turns, of: Contender, to: Contender, bound, limit| Goal {
            measure: format!("{measure}, 1 ms round trips, one at a time: throughput"),
            bound: Bound::AtLeast(bound),
            figure: turns.throughput_ratio(of, to),
            unit: format!("× {}", to.name),
            limit,
        };
        let above = |of: Contender, bound, limit| Goal {
            measure: format!("first call, {}, 1 ms round trips: median latency above the bare handler's", of.name),
            bound: Bound::AtMost(bound),
            figure: alone.latency_above(of, BARE, *round_trip),
            unit: "round trips".to_owned(),
            limit,
        };
        let above_select = |of: Contender| Goal {
            measure: format!("replay, {}, 1 ms round trips: median latency above a call's with one SELECT", of.name),
            bound: Bound::AtMost(0.5),
            figure: again_far.latency_above(of, PRIMARY_KEY, *round_trip),
            unit: "round trips".to_owned(),
            limit: None,
        };
        let trips = |of: Contender, bound, limit| Goal {
            measure: format!("replay, {}: round trips", of.name),
            bound: Bound::AtMost(bound),
            figure: Spread::of(
                self.counts.iter().filter(|it| it.0 == of && it.1 == "replay").map(|it| it.2.round_trips),
            ),
            unit: "round trips".to_owned(),
            limit,
        };
        vec![
            ratio("first call, transactional", first, TRANSACTIONAL, BARE, 0.70, None),
            ratio("first call, transactional", first, TRANSACTIONAL, FUN15, 2.4, Some(FIRST_LIMIT)),
            ratio(
                "first call, transactional, parsed",
                first,
                TRANSACTIONAL_PARSED,
                FUN15_PARSED,
                2.4,
                Some(FIRST_LIMIT),
            ),
            ratio("first call, reserved, same server", first, RESERVED_HERE, FUN15, 1.6, Some(RESERVED_LIMIT)),
            ratio("first call, reserved, parsed", first, RESERVED_PARSED, FUN15_PARSED, 1.6, Some(RESERVED_LIMIT)),
            far_ratio("first call, transactional", alone, TRANSACTIONAL, FUN15, 2.4, Some(FAR_LIMIT)),
            above(TRANSACTIONAL, 1.0, None),
            above(RESERVED_HERE, 2.0, Some(FLUSH_LIMIT)),
            trips(RESERVED, 1.0, None),
            trips(TRANSACTIONAL, 1.0, Some(ROLLBACK_LIMIT)),
            above_select(RESERVED),
            above_select(TRANSACTIONAL),
            ratio("replay, reserved", again, RESERVED, PRIMARY_KEY, 0.85, Some(SELECT_LIMIT)),
            ratio("replay, transactional", again, TRANSACTIONAL, PRIMARY_KEY, 0.85, Some(SELECT_LIMIT)),
            ratio("replay, reserved", again, RESERVED, FUN15, 3.0, Some(REPLAY_LIMIT)),
            far_ratio("replay, reserved", again_far, RESERVED, PRIMARY_KEY, 0.85, Some(SELECT_LIMIT)),
            far_ratio("replay, transactional", again_far, TRANSACTIONAL, PRIMARY_KEY, 0.85, Some(FAR_SELECT_LIMIT)),
            far_ratio("replay, reserved", again_far, RESERVED, FUN15, 3.0, Some(REPLAY_LIMIT)),
            trips(FROM_MEMORY, 0.0, None),
        ]
    }
}

const FIRST_LIMIT: &str = "\
    FUN-15's sequence itself. Where a round trip costs next to nothing, its throughput is a large part of the bare handler's (the table \
    of 16 at once has it), and 2.4 times that is about the bare handler's own or more, which leaves nothing for writing a record.";

const FAR_LIMIT: &str = "\
    Processor time and one flush. Of nine round trips three are left, and of three flushes one; what the handler itself takes of the \
    processors is left whole. Longer round trips bring it nearer to three, shorter ones to the ratio of 16 at once.";

const RESERVED_LIMIT: &str = "\
    Two transactions of the reservation's own, as FUN-15 has them: an insert with its index entries, and an update. With the database \
    next door they are most of what either adds to the handler (PostgreSQL's processor time in the table of 16 at once), and the round trips \
    saved are the rest. Passing it takes transactional mode, which writes one row in the handler's own transaction; or claims of \
    several calls put into one statement, which would have a call wait for others.";

const FLUSH_LIMIT: &str = "\
    The disk. Beyond its two round trips it waits for the flush of the completed record, as it has to, or a crash would lose an \
    outcome that was answered. In the table of one at a time, latencies go up by that flush with each commit that waits. \
    Transactional mode has one flush in all, the handler's own.";

const SELECT_LIMIT: &str = "\
    Processor time of PostgreSQL (the table of 16 at once): one call of a function that sets the user, reads the record under \
    row-level security, and asks the outbox in a block that survives its errors, against a prepared look-up without any of \
    that; for a transactional procedure BEGIN, two locks and a ROLLBACK as well. To pass it, a replay would have to do without \
    row-level security or without its status. Where round trips count, a reserved procedure's meets it; from memory every replay does.";

const FAR_SELECT_LIMIT: &str = "\
    Processor time of PostgreSQL once more: BEGIN, two locks and a ROLLBACK beside the look-up. It is one round trip all the same.";

const ROLLBACK_LIMIT: &str = "\
    The ROLLBACK. It follows the answer, and no caller waits for it, but the connection does. Without it first calls would have to \
    look before they begin, one round trip more for each.";

const REPLAY_LIMIT: &str = "\
    Processor time of PostgreSQL, as above: FUN-15's four statements are small ones, and prepared. It is met where round trips count, \
    for FUN-15 makes four of them, and from memory.";

/// Where the goals are measured.
fn at_goal(matrices: &[Matrix]) -> &Turns {
    let here = matrices.iter().find(|matrix| matrix.concurrency == CONCURRENCY && matrix.payload == SMALL);
    &here.expect("it is among those that are measured").turns
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
