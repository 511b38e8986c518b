//! The summary of a run, printed at its end.

use std::{fmt, path::PathBuf};

use super::format::Format;

/// The files of a run: those that were written, and those that were there.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) format: Format,
    pub(super) written: Vec<PathBuf>,
    pub(super) unchanged: Vec<PathBuf>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.unchanged {
            writeln!(formatter, "unchanged  {}", path.display())?;
        }
        for path in &self.written {
            writeln!(formatter, "written    {}", path.display())?;
        }
        if self.written.is_empty() {
            return write!(formatter, "Nothing is new: all {} files are there.", self.unchanged.len());
        }
        write!(
            formatter,
            "{} files written for {}, {} unchanged. Commit them, and run them with your own migrations: {}.",
            self.written.len(),
            self.format,
            self.unchanged.len(),
            self.format.how_to_run()
        )
    }
}
