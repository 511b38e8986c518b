//! Log lines that are written at most once a minute: of one procedure, or of the process.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
    time::Instant,
};

use tonic_idempotency_wire::Rare;

/// The rare lines of a procedure. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct RareLines(Arc<Rare>);

impl RareLines {
    /// Counts a call. Returns the number of calls to write the line for; `None` if it is not to be written now.
    pub(super) fn calls(&self, line: &'static str, cause: impl Into<Cow<'static, str>>) -> Option<u64> {
        self.0.calls([line.into(), cause.into()], Instant::now())
    }
}

impl PartialEq for RareLines {
    /// Returns `true`, so that two owners are equal whatever they have written.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// As [`RareLines::calls`], for a line that no procedure is known for.
pub(crate) fn rarely(line: &'static str, cause: impl Into<Cow<'static, str>>) -> Option<u64> {
    static LINES: LazyLock<RareLines> = LazyLock::new(RareLines::default);
    LINES.calls(line, cause)
}
