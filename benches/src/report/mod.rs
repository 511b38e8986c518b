//! The report of a run, as Markdown.
//!
//! | module | |
//! |---|---|
//! | `markdown` | the whole report as Markdown |
//! | `escape` | texts that must not be taken for Markdown |
//! | `setting` | on what the figures came out: machine, compiler, commit |

mod escape;
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

/// What a run found out.
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

    /// Puts the report in the place of an earlier one, which stays as it was if this one cannot be written.
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
