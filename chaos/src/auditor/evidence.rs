//! The evidence that the auditor judges.

use super::{Rows, Rules};
use crate::{journal::Entries, operation::Operation};

/// The evidence that the auditor judges.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) entries: &'a Entries,
    pub(crate) operations: &'a [Operation],
    pub(crate) rows: &'a Rows,
    pub(crate) rules: Rules,
}
