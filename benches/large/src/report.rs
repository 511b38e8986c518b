//! The report: a section of results/large-tables.md for each measurement.

use std::{fmt, fs, io, path::Path};

/// A section: a title, how it was measured, and a table of figures.
#[derive(Debug)]
pub(crate) struct Section {
    /// The measurement, as on the command line.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) text: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Section {
    /// Replaces the part of the page between this section's marks.
    pub(crate) fn write(&self, page: &Path) -> io::Result<()> {
        let text = fs::read_to_string(page)?;
        let (begin, end) = (format!("<!-- {} -->\n", self.name), format!("<!-- /{} -->", self.name));
        let found = text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
        let Some((before, after)) = found else {
            return Err(io::Error::other(format!("{} has no marks {begin}", page.display())));
        };
        fs::write(page, format!("{before}{begin}\n{self}\n{end}{after}"))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n\n{}\n", self.title, self.text)?;
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        writeln!(f, "|---{}|", "|---:".repeat(self.columns.len().saturating_sub(1)))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

/// Formats a number with separated thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut apart = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Section {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        Section {
            name: "way",
            title: "The way",
            text: "Text.".to_owned(),
            columns: cells(["", "p50"]),
            rows: vec![cells(["a", "1"])],
        }
    }

    #[test]
    fn replaces_its_own_part_of_the_page() {
        let folder = std::env::temp_dir().join(format!("large-tables-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&folder).expect("a folder");
        let page = folder.join("page.md");
        fs::write(&page, "# Top\n\n<!-- way -->\nold\n<!-- /way -->\n\n<!-- day -->\nkept\n<!-- /day -->\n")
            .expect("a page");
        for _ in 0..2 {
            section().write(&page).expect("it is written");
            let text = fs::read_to_string(&page).expect("a page");
            assert_eq!(
                text,
                "# Top\n\n<!-- way -->\n\n## The way\n\nText.\n\n|  | p50 |\n|---|---:|\n| a | 1 |\n\n<!-- /way -->\n\n<!-- day -->\nkept\n<!-- /day -->\n"
            );
        }
        fs::write(&page, "").expect("a page");
        section().write(&page).expect_err("no marks");
        fs::remove_dir_all(&folder).expect("it goes");
    }

    #[test]
    fn separates_thousands() {
        assert_eq!([7, 1_000, 12_345_678].map(count), ["7", "1,000", "12,345,678"]);
    }
}
