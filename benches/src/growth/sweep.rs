//! Calls before and while expired rows are swept away.

use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;
use tonic_idempotency::{PostgresStore, ResourceTypes, Sweeper};

use super::table::{PAYLOAD, Rows, Table};
use crate::{
    Error,
    context::Context,
    database::{
        contender::{Contender, RESERVED, TRANSACTIONAL},
        load::{Figures, Keys, Load},
        world::Served,
    },
    spread::Spread,
};

/// Whose calls are measured.
pub(super) const CONTENDERS: [Contender; 2] = [RESERVED, TRANSACTIONAL];

/// How many callers there are at once.
const CONCURRENCY: usize = 8;

/// What came of each round.
pub(super) struct Sweeps {
    /// How many rows were live, and how many had expired.
    pub(super) rows: [usize; 2],
    /// By contender, as in [`CONTENDERS`].
    before: [Vec<Figures>; CONTENDERS.len()],
    during: [Vec<Figures>; CONTENDERS.len()],
    /// Rows swept in a second, while calls run.
    pub(super) rate: f64,
}

impl Sweeps {
    /// In each round calls without a sweep, and then with one, which the next round takes up where it was stopped.
    pub(super) async fn measure(context: &Context, table: &Table) -> Result<Self, Error> {
        let expired = context.count(1_000_000);
        context.progress(&format!("putting {expired} expired rows beside {}", table.rows));
        table.fill(context, expired, Rows::Expired).await?;
        table.world.superuser().batch_execute("ALTER TABLE tenant.idempotency_keys RESET (autovacuum_enabled)").await?;

        let address = table.world.address()?;
        let sweeper = Sweeper::new(PostgresStore::new(table.world.pool(address)?, ResourceTypes::organization()));
        let load = Load { concurrency: CONCURRENCY, keys: Keys::New, payload: PAYLOAD };
        let mut services = Vec::new();
        for contender in CONTENDERS {
            let service = Served::start(table.world.routes(contender, address)?).await?;
            load.run_for(context.time(Duration::from_secs(1)), &service, &table.world.processes).await?;
            services.push(service);
        }

        let (mut before, mut during) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
        let (there, mut swept_for) = (table.expired().await?, Duration::ZERO);
        let time = context.time(Duration::from_millis(1500));
        let rounds = context.rounds(6);
        for round in 0..rounds {
            context.progress(&format!("calls without a sweep and with one, round {} of {rounds}", round + 1));
            for (service, figures) in services.iter().zip(&mut before) {
                figures.push(load.run_for(time, service, &table.world.processes).await?);
            }
            let started = Instant::now();
            let sweeper = sweeper.clone();
            let sweeping = AbortOnDropHandle::new(tokio::spawn(async move { sweeper.sweep().await }));
            for (service, figures) in services.iter().zip(&mut during) {
                figures.push(load.run_for(time, service, &table.world.processes).await?);
            }
            if sweeping.is_finished() && !context.smoke {
                return Err("the sweep was over before it was measured".into());
            }
            swept_for += started.elapsed();
        }
        let swept = there - table.expired().await?;
        let rate = swept as f64 / swept_for.as_secs_f64();
        Ok(Self { rows: [table.rows, expired], before, during, rate })
    }

    /// Before the sweep, and during it.
    pub(super) fn spreads(&self, contender: usize, figure: impl Fn(&Figures) -> f64) -> [Spread; 2] {
        [&self.before, &self.during].map(|rounds| Spread::of(rounds[contender].iter().map(&figure)))
    }

    /// The ratio of a figure during the sweep to the one before, round by round.
    pub(super) fn ratio(&self, contender: usize, figure: impl Fn(&Figures) -> f64) -> Spread {
        let [before, during] =
            [&self.before, &self.during].map(|rounds| rounds[contender].iter().map(&figure).collect::<Vec<_>>());
        Spread::of_ratios(&during, &before)
    }
}
