//! The report of a run: Markdown, and its plots beside it.
//!
//! | module | |
//! |---|---|
//! | `markdown` | the whole report as Markdown |
//! | `escape` | texts that must not be taken for Markdown |
//! | `files` | `docs/benchmarks.md` and `docs/benchmarks/*.svg`, replaced when all of it is there |
//! | `setting` | on what the figures came out: machine, compiler, commit |

mod escape;
mod files;
mod markdown;
mod setting;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

pub(crate) use self::{files::replace, setting::Setting};
use crate::{
    Error, plot,
    section::{Goal, Section},
};

/// What a run found out.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) setting: Setting,
    pub(crate) took: Duration,
    pub(crate) sections: Vec<Section>,
}

/// A report as it is written down.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) markdown: String,
    /// SVG, by name.
    pub(crate) plots: BTreeMap<&'static str, String>,
}

impl Report {
    /// # Errors
    ///
    /// If a plot cannot be drawn, or two have the same name.
    pub(crate) fn render(&self) -> Result<Rendered, Error> {
        let mut plots = BTreeMap::new();
        for plot in self.sections.iter().flat_map(|section| &section.plots) {
            if plots.insert(plot.name, plot::svg(plot)?).is_some() {
                return Err(format!("two plots are called {}", plot.name).into());
            }
        }
        Ok(Rendered { markdown: markdown::of(self), plots })
    }

    pub(crate) fn goals(&self) -> impl Iterator<Item = &Goal> {
        self.sections.iter().flat_map(|section| &section.goals)
    }

    pub(crate) fn missed(&self) -> impl Iterator<Item = &Goal> {
        self.goals().filter(|goal| !goal.is_met())
    }
}
