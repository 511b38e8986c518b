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

impl Findings {
    pub(super) fn into_section(self) -> Section {
        Section {
            title: "The layer on each driver",
            text: format!(
                "The handler is written once for each driver, as an application on that driver has it: BEGIN, the user, one INSERT, COMMIT. The \
                 driver keeps its statements prepared. **× bare** is the throughput with the layer over that of the same handler on the same driver without it. \
                 {CONCURRENCY} callers call over HTTP/2, as above, with 100 bytes; the pool of a driver has {CONNECTIONS} connections, and the \
                 store shares it with the handlers. All measurements take \
                 turns, in the same rounds.\n\n\
                 The goal: a driver's ratio is not below that of tokio-postgres, which can send BEGIN with the claim, and the record with \
                 COMMIT.\n\n{}.",
                self.server
            ),
            summary: None,
            tables: vec![self.throughputs()],
            goals: self.goals(),
        }
    }

    fn throughputs(&self) -> Table {
        let throughput = |contender| format::rate(self.turns.spread(contender, |figures| figures.throughput).median);
        let row = |driver: Driver| {
            let (bare, guarded) = ((driver, Guard::Bare), (driver, Guard::Transactional));
            let ratio = format::spread(self.turns.throughput_ratio(guarded, bare), 2);
            vec![driver.name().to_owned(), throughput(bare), throughput(guarded), ratio]
        };
        Table {
            caption: format!("Throughput: {CONCURRENCY} at once, 100 B"),
            columns: ["", Guard::Bare.name(), Guard::Transactional.name(), "× bare"].map(str::to_owned).to_vec(),
            rows: Driver::ALL.map(row).to_vec(),
        }
    }

    fn goals(&self) -> Vec<Goal> {
        let others = [(Driver::Sqlx, SQLX_LIMIT), (Driver::Diesel, DIESEL_LIMIT), (Driver::SeaOrm, SQLX_LIMIT)];
        others.map(|(driver, limit)| self.goal(driver, limit)).to_vec()
    }

    fn goal(&self, driver: Driver, limit: &'static str) -> Goal {
        let ratios = |driver| self.turns.throughput_ratios((driver, Guard::Transactional), (driver, Guard::Bare));
        let measure = format!(
            "first call, transactional, {CONCURRENCY} at once, {}: throughput over the bare handler's on the same driver",
            driver.name()
        );
        let ratio = Spread::of_ratios(&ratios(driver), &ratios(Driver::TokioPostgres));
        let goal = Goal::new(measure, Bound::AtLeast(1.0), ratio, "× that of tokio-postgres");
        Goal { limit: Some(limit.to_owned()), ..goal }
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
