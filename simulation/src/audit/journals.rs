//! Whether journals keep their word: the table in `../journal.rs`.

use super::Audit;

impl Audit<'_> {
    /// Checks the evidence about each journal.
    pub(super) fn journals(&mut self) {
        for (operation, kept) in &self.evidence.journals {
            for seen in kept.broken() {
                self.broken("a journal keeps its word", format!("operation {operation}: {seen}"));
            }
        }
    }
}
