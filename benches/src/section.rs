//! What a part found out: a section of the report.

use crate::spread::Spread;

/// A section of the report.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// What is measured, and how, as Markdown.
    pub(crate) text: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
    pub(crate) goals: Vec<Goal>,
}

/// A table. The first column is text, the others are figures.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A plot, drawn as SVG.
#[derive(Debug)]
pub(crate) struct Plot {
    /// The file's name, without its ending.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// What the figures are, and of what unit.
    pub(crate) unit: String,
    pub(crate) kind: PlotKind,
}

/// How a plot is drawn.
#[derive(Debug)]
pub(crate) enum PlotKind {
    /// A group of bars for each label, in it a bar for each series: its figure, and a whisker from where to where its rounds went.
    /// `None` where there is no such figure.
    Bars { labels: Vec<String>, series: Vec<(String, Vec<Option<Spread>>)> },
    /// A line for each series, over an axis that grows by factors.
    Lines { axis: String, series: Vec<(String, Vec<(f64, Spread)>)> },
}

/// A goal, and what came of it.
#[derive(Debug)]
pub(crate) struct Goal {
    pub(crate) measure: String,
    pub(crate) bound: Bound,
    pub(crate) figure: Spread,
    /// What the figure is a ratio to, or its unit: `× plain SHA-256`, `KiB`.
    pub(crate) unit: String,
    /// What the limit is where the goal is not met, and what passing it would cost: for whoever reads the report.
    pub(crate) limit: Option<&'static str>,
}

/// From which side a goal bounds its figure; the median counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.figure.median >= bound,
            Bound::AtMost(bound) => self.figure.median <= bound,
        }
    }
}
