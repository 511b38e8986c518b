//! Columns under their names.

use std::io::{self, Write as _};

use anstyle::Style;
use tabwriter::TabWriter;

use super::plain;
use crate::failure::Failure;

pub(crate) struct Table(TabWriter<Vec<u8>>);

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Result<Self, Failure> {
        let mut table = Self(TabWriter::new(Vec::new()).ansi(true).padding(2).minwidth(0));
        writeln!(table.0, "{}", columns.join("\t"))?;
        Ok(table)
    }

    /// Adds a row whose first cell has a style.
    pub(crate) fn row(&mut self, style: Style, cells: &[String]) -> Result<(), Failure> {
        let cells: Vec<_> = cells.iter().map(|cell| plain(cell)).collect();
        let (first, rest) = cells.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        writeln!(self.0, "{style}{first}{style:#}\t{}", rest.join("\t"))?;
        Ok(())
    }

    pub(crate) fn print(self) -> Result<(), Failure> {
        let table = self.0.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        anstream::stdout().write_all(&table)?;
        Ok(())
    }
}
