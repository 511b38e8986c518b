//! The results of a part: a section of the report.

use std::fmt;

use crate::{format, spread::Spread};

/// A section of the report. All texts are Markdown.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// The measurement and its method.
    pub(crate) text: String,
    /// The answer to "what will it cost me?", if this part has it.
    pub(crate) summary: Option<Table>,
    pub(crate) tables: Vec<Table>,
    pub(crate) goals: Vec<Goal>,
}

/// A table whose first column is text; the other columns are figures.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A goal, and the figure that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) measure: String,
    pub(crate) bound: Bound,
    pub(crate) figure: Spread,
    /// The unit of the figure, or the base of a ratio: `KiB`, `× plain SHA-256`.
    pub(crate) unit: String,
    /// The limit that explains a missed goal, and the cost of passing that limit.
    pub(crate) limit: Option<String>,
}

/// The bound of a goal, for the median.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    /// A goal whose limit is not known.
    pub(crate) fn new(measure: impl Into<String>, bound: Bound, figure: Spread, unit: impl Into<String>) -> Self {
        Self { measure: measure.into(), bound, figure, unit: unit.into(), limit: None }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.bound.holds(self.figure.median)
    }

    /// Formats the figure with enough decimals to show whether it meets its goal: 0.9896 must not
    /// become 0.99.
    pub(crate) fn written_figure(&self) -> String {
        const ENOUGH: usize = 9;
        let median = self.figure.median;
        let tells = |decimals: &usize| {
            let written = format!("{median:.decimals$}").parse().unwrap_or(median);
            self.bound.holds(written) == self.is_met()
        };
        let decimals = (format::decimals(median)..ENOUGH).find(tells).unwrap_or(ENOUGH);
        format::spread(self.figure, decimals)
    }
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
        }
    }
}

/// Writes the bound with its own decimals: `≥ 0.9`, `≤ 1,000`.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self {
            Self::AtLeast(bound) => ("≥", bound),
            Self::AtMost(bound) => ("≤", bound),
        };
        let written = bound.to_string();
        let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        write!(f, "{sign} {}", format::with_decimals(*bound, decimals))
    }
}

/// Writes the goal and its figure in one line.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, bound, unit, .. } = self;
        write!(f, "{measure}: {} instead of {bound} {unit}", self.written_figure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(bound: Bound, median: f64) -> Goal {
        let figure = Spread { median, min: median, max: median + 1.0 };
        Goal::new("speed", bound, figure, "× bare")
    }

    #[test]
    fn a_goal_is_met_at_its_bound_and_missed_beyond() {
        assert!(goal(Bound::AtLeast(0.9), 0.9).is_met());
        assert!(!goal(Bound::AtLeast(0.9), 0.8999).is_met());
        assert!(goal(Bound::AtMost(3.0), 3.0).is_met());
        assert!(!goal(Bound::AtMost(3.0), 3.0001).is_met());
        // A figure that is not a number meets no goal.
        assert!(!goal(Bound::AtLeast(0.9), f64::NAN).is_met());
        assert!(!goal(Bound::AtMost(3.0), f64::NAN).is_met());
    }

    #[test]
    fn a_figure_is_not_rounded_over_its_bound() {
        assert_eq!(goal(Bound::AtLeast(0.99), 0.98996).written_figure(), "0.98996 (0.98996–1.98996)");
        assert_eq!(goal(Bound::AtMost(3.0), 3.0004).written_figure(), "3.0004 (3.0004–4.0004)");
        assert_eq!(goal(Bound::AtMost(3.0), 2.9996).written_figure(), "3.00 (3.00–4.00)");
    }

    #[test]
    fn a_goal_is_written_in_one_line() {
        let line = goal(Bound::AtMost(1_000.5), 1_200.0).to_string();
        assert_eq!(line, "speed: 1,200 (1,200–1,201) instead of ≤ 1,000.5 × bare");
    }
}
