//! The section of the report.

use super::{CONCURRENCY, CONNECTIONS, Contender, Driver, Guard};
use crate::{
    database::turns::Turns,
    format,
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

/// The results.
pub(super) struct Findings {
    pub(super) server: String,
    pub(super) turns: Turns<Contender>,
}

const GUARDED: [Guard; 3] = [Guard::Transactional, Guard::Replay, Guard::Reserved];

impl Findings {
    pub(super) fn into_section(self) -> Section {
        Section {
            title: "The layer on each driver",
            text: format!(
                "The handler is written once for each driver, as an application on that driver has it: BEGIN, the user, one INSERT, COMMIT. The \
                 driver keeps its statements prepared. **× bare** is the throughput with the layer over that of the same handler on the same driver without it. \
                 {CONCURRENCY} callers call over HTTP/2, as above, with 100 bytes; the pool of a driver has {CONNECTIONS} connections, and the \
                 store shares it with the handlers. Replays are from the store. All measurements take \
                 turns, in the same rounds.\n\n\
                 The goal: a driver's ratio is not below that of tokio-postgres, which can send BEGIN with the claim, and the record with \
                 COMMIT.\n\n{}.",
                self.server
            ),
            summary: None,
            tables: vec![self.throughputs(), self.latencies()],
            goals: self.goals(),
        }
    }

    fn throughputs(&self) -> Table {
        let mut columns = vec![String::new(), Guard::Bare.name().to_owned()];
        columns.extend(GUARDED.iter().flat_map(|guard| [guard.name().to_owned(), "× bare".to_owned()]));
        let row = |driver: Driver| {
            let mut row = vec![driver.name().to_owned(), self.throughput((driver, Guard::Bare))];
            for guard in GUARDED {
                let ratio = self.turns.throughput_ratio((driver, guard), (driver, Guard::Bare));
                row.extend([self.throughput((driver, guard)), format::spread_with_decimals(ratio, 2)]);
            }
            row
        };
        Table {
            caption: format!("Throughput: {CONCURRENCY} at once, 100 B"),
            columns,
            rows: Driver::ALL.map(row).to_vec(),
        }
    }

    fn latencies(&self) -> Table {
        let guards = [Guard::Bare, Guard::Transactional, Guard::Replay, Guard::Reserved];
        let row = |driver: Driver| {
            let latency = |guard| self.turns.spread((driver, guard), |figures| figures.p50.as_secs_f64()).median;
            let latencies = guards.map(|guard| format::duration(latency(guard)));
            [vec![driver.name().to_owned()], latencies.to_vec()].concat()
        };
        Table {
            caption: format!("Median latency: {CONCURRENCY} at once, 100 B"),
            columns: [vec![String::new()], guards.map(|guard| guard.name().to_owned()).to_vec()].concat(),
            rows: Driver::ALL.map(row).to_vec(),
        }
    }

    fn throughput(&self, contender: Contender) -> String {
        format::rate(self.turns.spread(contender, |figures| figures.throughput).median)
    }

    fn goals(&self) -> Vec<Goal> {
        let others = [(Driver::Sqlx, SQLX_LIMIT), (Driver::Diesel, DIESEL_LIMIT), (Driver::SeaOrm, SQLX_LIMIT)];
        others.map(|(driver, limit)| self.goal(driver, limit)).to_vec()
    }

    fn goal(&self, driver: Driver, limit: &'static str) -> Goal {
        let ratios = |driver| self.turns.throughput_ratios((driver, Guard::Transactional), (driver, Guard::Bare));
        Goal {
            measure: format!(
                "first call, transactional, {CONCURRENCY} at once, {}: throughput over the bare handler's on the same driver",
                driver.name()
            ),
            bound: Bound::AtLeast(1.0),
            figure: Spread::of_ratios(&ratios(driver), &ratios(Driver::TokioPostgres)),
            unit: "× that of tokio-postgres".to_owned(),
            limit: Some(limit.to_owned()),
        }
    }
}

const SQLX_LIMIT: &str = "\
    Not measured apart. Two round trips more than on tokio-postgres: sqlx sends one statement at a time, so a transactional call waits for BEGIN, the claim, the record and COMMIT, one after \
    another; on tokio-postgres BEGIN rides with the claim and COMMIT with the record. The bare handlers differ by sqlx's ping alone. \
    Claim and COMMIT could be sent as one text with literals, which the server would parse anew for each call, and log.";

const DIESEL_LIMIT: &str = "\
    Not measured apart. One round trip more than on tokio-postgres: BEGIN rides with the claim, but COMMIT waits for the record, as \
    diesel-async cannot tell whether the record's statement is prepared on the connection, and a COMMIT sent behind it would overtake it if \
    it is not. Compare the spread of the rounds, which is wider than what is missed if that is little.";
