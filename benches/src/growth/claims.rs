//! Claims and replays in tables of different sizes.

use std::time::Duration;

use super::{
    subject::Subject,
    table::{Size, Table},
};
use crate::{Error, context::Context, database::load::Figures, spread::Spread};

/// The figures of each round, in one table.
pub(super) struct Claims {
    pub(super) rows: usize,
    pub(super) size: Size,
    /// By subject, as in [`Subject::ALL`].
    figures: [Vec<Figures>; Subject::ALL.len()],
    /// Images of whole pages in the log, for each call that writes.
    pub(super) page_images: f64,
}

impl Claims {
    /// Measures each table with each subject in every round. Every other round goes through the tables in reverse.
    pub(super) async fn measure(context: &Context, tables: &[Table]) -> Result<Vec<Self>, Error> {
        let mut measured = Vec::new();
        let mut callers = Vec::new();
        let mut images = Vec::new();
        for table in tables {
            context.progress(&format!("warming up {} rows", table.rows));
            let keys = table.keys().await?.into();
            let mut of_table = Vec::new();
            for subject in Subject::ALL {
                let (caller, load) = subject.caller(table, &keys).await?;
                let projects = table.projects().await?;
                load.run_for(context.time(Duration::from_millis(500)), &caller, &table.world.processes).await?;
                if subject.is_replay() && table.projects().await? != projects {
                    return Err(format!("{}: not every call was a replay", subject.name()).into());
                }
                of_table.push((caller, load));
            }
            callers.push(of_table);
            images.push(table.page_images().await?);
            let figures = [const { Vec::new() }; Subject::ALL.len()];
            measured.push(Self { rows: table.rows, size: table.size().await?, figures, page_images: 0.0 });
        }
        let time = context.time(Duration::from_millis(400));
        let rounds = context.rounds(7);
        for round in 0..rounds {
            context.progress(&format!("calls in tables of different sizes, round {} of {rounds}", round + 1));
            for subject in Subject::ALL.map(|subject| subject as usize) {
                for turn in 0..tables.len() {
                    let index = if round % 2 == 0 { turn } else { tables.len() - 1 - turn };
                    let (caller, load) = &callers[index][subject];
                    let figures = load.run_for(time, caller, &tables[index].world.processes).await?;
                    measured[index].figures[subject].push(figures);
                }
            }
        }
        for ((table, before), claims) in tables.iter().zip(images).zip(&mut measured) {
            let writes = claims.figures[..3].iter().flatten().map(|figures| figures.calls).sum::<u64>();
            claims.page_images = (table.page_images().await? - before) as f64 / writes.max(1) as f64;
        }
        Ok(measured)
    }

    /// Returns the spread of one figure over the rounds.
    pub(super) fn spread(&self, subject: Subject, figure: impl Fn(&Figures) -> Duration) -> Spread {
        Spread::of(self.all(subject, figure))
    }

    /// Returns the ratio of a figure to that of another table, round by round.
    pub(super) fn ratio(&self, to: &Self, subject: Subject, figure: impl Fn(&Figures) -> Duration) -> Spread {
        Spread::of_ratios(&self.all(subject, &figure), &to.all(subject, &figure))
    }

    fn all(&self, subject: Subject, figure: impl Fn(&Figures) -> Duration) -> Vec<f64> {
        self.figures[subject as usize].iter().map(|figures| figure(figures).as_secs_f64()).collect()
    }
}
