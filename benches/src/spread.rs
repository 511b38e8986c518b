use std::fmt;

/// A figure as it came out of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one figure.
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

    /// The ratios of what was measured in the same rounds.
    pub(crate) fn of_ratios(figures: &[f64], to: &[f64]) -> Self {
        assert_eq!(figures.len(), to.len(), "measured in the same rounds");
        Self::of(figures.iter().zip(to).map(|(figure, to)| figure / to))
    }
}

/// The median, and from where to where the rounds went, with as many decimals as the format asks for (two if it does not).
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(2);
        let Self { median, min, max } = self;
        write!(f, "{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
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
        assert_eq!(format!("{ratios:.1}"), "1.0 (0.5–3.0)");
    }
}
