//! Measurements of contenders in turn, under the same load.

use std::time::Duration;

use super::{
    contender::Contender,
    load::{Figures, Load},
    usage::ServerProcesses,
    world::Served,
};
use crate::{error::Error, report::Spread};

/// A contender, its client and its load.
pub(crate) struct Entrant<K = Contender> {
    pub(crate) contender: K,
    pub(crate) client: Served,
    pub(crate) load: Load,
}

/// The figures of each round, by contender.
#[derive(Debug)]
pub(crate) struct Turns<K = Contender> {
    figures: Vec<(K, Vec<Figures>)>,
}

impl<K: Copy + PartialEq> Turns<K> {
    /// Measures each entrant once in each round, for the given time. Every other round goes through them in reverse.
    pub(crate) async fn taken(
        entrants: &[Entrant<K>],
        rounds: usize,
        time: Duration,
        server: &ServerProcesses,
    ) -> Result<Self, Error> {
        let mut figures: Vec<_> = entrants.iter().map(|entrant| (entrant.contender, Vec::new())).collect();
        for round in 0..rounds {
            for turn in 0..entrants.len() {
                let index = if round % 2 == 0 { turn } else { entrants.len() - 1 - turn };
                let Entrant { load, client, .. } = &entrants[index];
                figures[index].1.push(load.run_for(time, client, server).await?);
            }
        }
        Ok(Self { figures })
    }

    pub(crate) fn contenders(&self) -> impl Iterator<Item = K> {
        self.figures.iter().map(|(contender, _)| *contender)
    }

    /// Returns the spread of one figure over the rounds.
    pub(crate) fn spread(&self, contender: K, figure: impl Fn(&Figures) -> f64) -> Spread {
        Spread::of(self.all(contender, figure))
    }

    /// Writes the median of the throughput.
    pub(crate) fn rate(&self, contender: K) -> String {
        format!("{:.0}/s", self.spread(contender, |figures| figures.throughput).median)
    }

    /// Returns the ratio of a contender's throughput to another's in each round.
    #[cfg(feature = "drivers")]
    pub(crate) fn throughput_ratios(&self, contender: K, to: K) -> Vec<f64> {
        let throughput = |of| self.all(of, |figures| figures.throughput);
        throughput(contender).into_iter().zip(throughput(to)).map(|(of, to)| of / to).collect()
    }

    /// Returns the ratio of a contender's figure to another's, round by round.
    pub(crate) fn ratio(&self, contender: K, to: K, figure: impl Fn(&Figures) -> f64) -> Spread {
        Spread::of_ratios(&self.all(contender, &figure), &self.all(to, &figure))
    }

    /// Returns how far a contender's figure is above another's, round by round.
    pub(crate) fn above(&self, contender: K, other: K, figure: impl Fn(&Figures) -> f64) -> Spread {
        let (of, other) = (self.all(contender, &figure), self.all(other, &figure));
        Spread::of(of.into_iter().zip(other).map(|(of, other)| of - other))
    }

    fn all(&self, contender: K, figure: impl Fn(&Figures) -> f64) -> Vec<f64> {
        let of = self.figures.iter().find(|(other, _)| *other == contender);
        let (_, rounds) = of.expect("the contender was measured");
        rounds.iter().map(figure).collect()
    }
}
