//! The report of a run, as Markdown.
//!
//! | module | |
//! |---|---|
//! | `markdown` | writes the report as Markdown |
//! | `setting` | the machine, the compiler and the commit of a run |

mod markdown;
mod setting;
#[cfg(test)]
mod tests;

use std::{fs, path::Path, time::Duration};

pub(crate) use self::setting::Setting;
use crate::{
    Error,
    section::{Goal, Section},
};

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) setting: Setting,
    pub(crate) took: Duration,
    pub(crate) sections: Vec<Section>,
}

impl Report {
    pub(crate) fn to_markdown(&self) -> String {
        markdown::of(self)
    }

    /// Replaces the report of an earlier run, which stays as it was if the new one cannot be written.
    pub(crate) fn replace(&self, file: &Path) -> Result<(), Error> {
        let new = file.with_extension("md.new");
        fs::write(&new, self.to_markdown())?;
        fs::rename(&new, file)?;
        Ok(())
    }

    pub(crate) fn goals(&self) -> impl Iterator<Item = &Goal> {
        self.sections.iter().flat_map(|section| &section.goals)
    }

    pub(crate) fn missed(&self) -> impl Iterator<Item = &Goal> {
        self.goals().filter(|goal| !goal.is_met())
    }
}
