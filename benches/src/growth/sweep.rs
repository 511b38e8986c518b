//! Calls without and during a sweep of expired rows.

use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;
use tonic_idempotency::{maintenance::Sweeper, store::PostgresStore};

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

/// The contenders that are measured.
pub(super) const CONTENDERS: [Contender; 2] = [RESERVED, TRANSACTIONAL];

/// The number of concurrent callers.
const CONCURRENCY: usize = 8;

/// The figures of each round.
pub(super) struct Sweeps {
    /// The numbers of live and of expired rows.
    pub(super) rows: [usize; 2],
    /// By contender, as in [`CONTENDERS`].
    before: [Vec<Figures>; CONTENDERS.len()],
    during: [Vec<Figures>; CONTENDERS.len()],
    /// Rows swept per second while calls run.
    pub(super) rate: Spread,
}

impl Sweeps {
    /// Measures calls without a sweep and then during one in each round. The next round continues the sweep.
    pub(super) async fn measure(context: &Context, table: &Table) -> Result<Self, Error> {
        let expired = context.count(1_000_000);
        context.progress(&format!("adding {expired} expired rows to {}", table.rows));
        table.fill(context, expired, Rows::Expired).await?;
        table.world.superuser().batch_execute("ALTER TABLE tenant.idempotency_keys RESET (autovacuum_enabled)").await?;

        let address = table.world.address()?;
        let sweeper = Sweeper::new(PostgresStore::new(table.world.pool(address)?, organization::resource_types()))
            .batch(1_000)
            .rest(1.0);
        let load = Load { concurrency: CONCURRENCY, keys: Keys::New, payload: PAYLOAD };
        let mut services = Vec::new();
        for contender in CONTENDERS {
            let service = Served::start(table.world.routes(contender, address)?).await?;
            load.run_for(context.time(Duration::from_secs(1)), &service, &table.world.processes).await?;
            services.push(service);
        }

        let (mut before, mut during) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
        let (mut left, mut rates) = (table.expired().await?, Vec::new());
        let time = context.time(Duration::from_millis(1500));
        let rounds = context.rounds(6);
        for round in 0..rounds {
            context.progress(&format!("calls without a sweep and with one, round {} of {rounds}", round + 1));
            let without = calls(&load, time, &services, table).await?;
            let started = Instant::now();
            let sweeper = sweeper.clone();
            let sweeping = AbortOnDropHandle::new(tokio::spawn(async move { sweeper.sweep().await }));
            let with = calls(&load, time, &services, table).await?;
            if sweeping.is_finished() && !context.smoke {
                context.progress("the sweep has ended: this round does not count");
                break;
            }
            drop(sweeping);
            let (swept_for, left_before) = (started.elapsed(), left);
            left = table.expired().await?;
            rates.push((left_before - left) as f64 / swept_for.as_secs_f64());
            for (contender, (without, with)) in without.into_iter().zip(with).enumerate() {
                before[contender].push(without);
                during[contender].push(with);
            }
        }
        if rates.is_empty() {
            return Err("a sweep ended before it was measured".into());
        }
        let rate = Spread::of(rates);
        Ok(Self { rows: [table.rows, expired], before, during, rate })
    }

    /// Returns a figure without the sweep, and during it.
    pub(super) fn spreads(&self, contender: usize, figure: impl Fn(&Figures) -> f64) -> [Spread; 2] {
        [&self.before, &self.during].map(|rounds| Spread::of(rounds[contender].iter().map(&figure)))
    }

    /// Returns the ratio of a figure during the sweep to the one without it, round by round.
    pub(super) fn ratio(&self, contender: usize, figure: impl Fn(&Figures) -> f64) -> Spread {
        let [before, during] =
            [&self.before, &self.during].map(|rounds| rounds[contender].iter().map(&figure).collect::<Vec<_>>());
        Spread::of_ratios(&during, &before)
    }
}

/// Calls each contender in turn.
async fn calls(load: &Load, time: Duration, services: &[Served], table: &Table) -> Result<Vec<Figures>, Error> {
    let mut figures = Vec::with_capacity(services.len());
    for service in services {
        figures.push(load.run_for(time, service, &table.world.processes).await?);
    }
    Ok(figures)
}
