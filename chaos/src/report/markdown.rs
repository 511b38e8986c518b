//! A table in Markdown.

use std::fmt;

/// The rows of a table: names and numbers.
#[derive(Debug, Default)]
pub(crate) struct MarkdownTable(Vec<(String, String)>);

impl MarkdownTable {
    pub(crate) fn row(&mut self, name: &str, value: impl fmt::Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// A row that stands out.
    pub(crate) fn strong(&mut self, name: &str, value: impl fmt::Display) {
        self.row(&format!("**{name}**"), format_args!("**{value}**"));
    }

    /// The row of a promise: the number of times that it was broken.
    pub(crate) fn promise(&mut self, name: impl fmt::Display, broken: usize) {
        self.row(&format!("**{name}** (must be 0)"), format_args!("**{broken}**"));
    }

    /// Writes the table with its title and the verdict on its promises.
    pub(crate) fn write(&self, title: impl fmt::Display, is_kept: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |of: fn(&(String, String)) -> usize| self.0.iter().map(of).max().unwrap_or_default();
        let (names, values) = (width(|row| row.0.chars().count()), width(|row| row.1.chars().count()));
        writeln!(f, "## {title}\n")?;
        writeln!(f, "| {:names$} | {:>values$} |", "", "")?;
        writeln!(f, "|{:-<left$}|{:->right$}:|", "", "", left = names + 2, right = values + 1)?;
        for (name, value) in &self.0 {
            writeln!(f, "| {name:names$} | {value:>values$} |")?;
        }
        write!(f, "\n{}", if is_kept { "All promises were kept." } else { "**PROMISES WERE BROKEN.**" })
    }
}
