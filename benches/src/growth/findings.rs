//! The section of the report.

use std::time::Duration;

use super::{
    claims::Claims,
    subject::Subject,
    sweep::{self, Sweeps},
};
use crate::{
    database::load::Figures,
    format,
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

/// The results of all measurements.
pub(super) struct Findings {
    pub(super) server: String,
    /// By size, the smallest first.
    pub(super) claims: Vec<Claims>,
    pub(super) sweeps: Sweeps,
}

const TEXT: &str = "\
**Growth.** Servers with tables of different sizes take turns. Each table is filled with copies of the record of a real call, under \
random keys of 10,000 users, with the times of calls made over 23 hours. Then its indexes are built, it is analyzed, and there is a \
checkpoint. The first change of a page after a checkpoint logs the whole page, and the indexes of a large table have more pages: calls \
begin half a second before they are measured. Autovacuum is off for these tables. 4 callers at once, with prepared statements, make first \
calls, replay rows from all over the table (20,000 of them at most, in turn, with `replay_cache_bytes(0)`), or claim new keys with \
`PostgresStore::claim` and nothing else. The smallest table grows while it is measured.

**A sweep.** The table has as many expired rows as live ones. 8 callers at once make first calls, without a sweep and then while \
`Sweeper::sweep` runs with batches of 1,000 records and rests as long, in turn; the next round continues the sweep where it was stopped.
";

impl Findings {
    pub(super) fn into_section(self) -> Section {
        let mut goals = self.growth_goals();
        goals.extend(self.sweep_goals());
        Section {
            title: "Large tables, and sweeps",
            text: format!("{TEXT}\n{}.", self.server),
            summary: None,
            tables: vec![self.sizes_table(), self.latencies_table(), self.sweep_table()],
            goals,
        }
    }

    fn sizes_table(&self) -> Table {
        let row = |claims: &Claims| {
            let size = claims.size;
            vec![
                format::figure(claims.rows as f64),
                format::bytes(size.table as f64),
                format::bytes(size.indexes as f64),
                format::bytes(size.unique_index as f64),
                format::with_decimals(claims.page_images, 2),
            ]
        };
        Table {
            caption: "Disk space of a table, and whole pages logged for each call that writes".to_owned(),
            columns: ["rows", "table", "indexes", "unique index", "page images"].map(str::to_owned).to_vec(),
            rows: self.claims.iter().map(row).collect(),
        }
    }

    fn latencies_table(&self) -> Table {
        let columns = self.claims.iter().flat_map(|claims| {
            let rows = format::figure(claims.rows as f64);
            [format!("{rows} rows, p50"), format!("{rows} rows, p99")]
        });
        let row = |subject: Subject| {
            let figures = self.claims.iter().flat_map(|claims| {
                [claims.spread(subject, |figures| figures.p50), claims.spread(subject, |figures| figures.p99)]
            });
            [subject.name().to_owned()]
                .into_iter()
                .chain(figures.map(|seconds| format::spread(milliseconds(seconds))))
                .collect()
        };
        Table {
            caption: "Calls in tables of different sizes, in milliseconds".to_owned(),
            columns: ["4 at once".to_owned()].into_iter().chain(columns).collect(),
            rows: Subject::ALL.map(row).to_vec(),
        }
    }

    fn sweep_table(&self) -> Table {
        let rows = sweep::CONTENDERS.iter().enumerate().flat_map(|(index, contender)| {
            let p50 = self.sweeps.spreads(index, |figures| figures.p50.as_secs_f64());
            let p99 = self.sweeps.spreads(index, p99);
            let throughput = self.sweeps.spreads(index, |figures| figures.throughput);
            ["without a sweep", "during a sweep"].into_iter().enumerate().map(move |(during, when)| {
                vec![
                    format!("{}, {when}", contender.name),
                    format::spread(milliseconds(p50[during])),
                    format::spread(milliseconds(p99[during])),
                    format::spread(throughput[during]),
                ]
            })
        });
        let [live, expired] = self.sweeps.rows.map(|rows| format::figure(rows as f64));
        Table {
            caption: format!(
                "First calls with {live} live rows and {expired} expired ones, of which {} per second are swept; times in milliseconds",
                format::spread(self.sweeps.rate)
            ),
            columns: ["8 at once", "p50", "p99", "calls/s"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }
    }

    fn growth_goals(&self) -> Vec<Goal> {
        let [small, .., large] = &self.claims[..] else { return Vec::new() };
        vec![Goal {
            measure: format!("claim with {} rows, p50", format::figure(large.rows as f64)),
            bound: Bound::AtMost(1.3),
            figure: large.ratio(small, Subject::Claim, |figures| figures.p50),
            unit: format!("× with {} rows", format::figure(small.rows as f64)),
            limit: Some(
                "In a large table nearly each claim changes a page of the unique index that has not been changed since the last \
                 checkpoint, and PostgreSQL logs that page as a whole (see the page images); in a small table hardly any claim does."
                    .to_owned(),
            ),
        }]
    }

    fn sweep_goals(&self) -> Vec<Goal> {
        let goal = |(index, contender): (usize, &crate::database::contender::Contender)| Goal {
            measure: format!("first call during a sweep, {}, p99", contender.name),
            bound: Bound::AtMost(2.0),
            figure: self.sweeps.ratio(index, p99),
            unit: "× without a sweep".to_owned(),
            limit: None,
        };
        sweep::CONTENDERS.iter().enumerate().map(goal).collect()
    }
}

fn p99(figures: &Figures) -> f64 {
    figures.p99.as_secs_f64()
}

fn milliseconds(seconds: Spread) -> Spread {
    let in_milliseconds = |seconds: f64| seconds / Duration::from_millis(1).as_secs_f64();
    Spread {
        median: in_milliseconds(seconds.median),
        min: in_milliseconds(seconds.min),
        max: in_milliseconds(seconds.max),
    }
}
