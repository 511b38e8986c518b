//! A figure that was measured in several rounds.

/// The median of several rounds, and their extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Returns the spread of at least one figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<_> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let [min, .., max] = figures[..] else {
            let only = figures[0];
            return Self { median: only, min: only, max: only };
        };
        let middle = figures.len() / 2;
        let median =
            if figures.len() % 2 == 1 { figures[middle] } else { (figures[middle - 1] + figures[middle]) / 2.0 };
        Self { median, min, max }
    }

    /// Returns the spread of the ratios of figures from the same rounds.
    pub(crate) fn of_ratios(figures: &[f64], to: &[f64]) -> Self {
        assert_eq!(figures.len(), to.len(), "measured in the same rounds");
        Self::of(figures.iter().zip(to).map(|(figure, to)| figure / to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_median_between_the_extremes() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of([7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratios = Spread::of_ratios(&[1.0, 4.0, 9.0], &[2.0, 4.0, 3.0]);
        assert_eq!(ratios, Spread { median: 1.0, min: 0.5, max: 3.0 });
    }
}
