//! Shows the progress of a run on stderr, and notices if there is none.

use std::{
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use tokio::time;
use tokio_util::task::AbortOnDropHandle;

use crate::{error::Error, journal::Journal, mode::Mode};

/// The longest time in which no operation finishes: no single operation may take longer, so all of them together cannot
/// stand still for longer.
const STANDSTILL: Duration = Duration::from_secs(120);

/// The interval between two checks for progress.
const LOOK: Duration = Duration::from_millis(250);

/// The interval between two lines.
const INTERVAL: Duration = Duration::from_secs(5);

/// Shows the progress of the run on stderr, until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    line: ProgressLine,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone, Debug)]
struct ProgressLine {
    journal: Arc<Journal>,
    mode: Mode,
    operations: u32,
}

impl Progress {
    pub(crate) fn start(mode: Mode, journal: &Arc<Journal>, operations: u32) -> Self {
        let line = ProgressLine { journal: Arc::clone(journal), mode, operations };
        let shown = line.clone();
        let task = tokio::spawn(async move {
            let mut looks = time::interval(INTERVAL);
            let (mut before, mut at) = (0, shown.journal.now());
            loop {
                looks.tick().await;
                let (done, now) = (shown.journal.entries().done, shown.journal.now());
                shown.show(done - before, now - at);
                (before, at) = (done, now);
            }
        });
        Self { line, _task: AbortOnDropHandle::new(task) }
    }
}

impl ProgressLine {
    /// Writes the line. The rate is that of `done_then` operations in this time.
    fn show(&self, done_then: u32, time: Duration) {
        let (done, calls, faults) = {
            let entries = self.journal.entries();
            // Clients that are processes of their own do not tell their calls.
            let calls = Some(entries.attempts.len()).filter(|calls| *calls > 0);
            (entries.done, calls.map(|calls| format!("{calls} calls, ")).unwrap_or_default(), entries.faults.len())
        };
        let (mode, operations, seconds) = (self.mode, self.operations, self.journal.now().as_secs());
        let rate = f64::from(done_then) / time.as_secs_f64().max(0.001);
        let line =
            format!("{mode}: {done} of {operations} operations, {calls}{faults} faults, {rate:.0}/s, {seconds} s");
        // Fails if stderr is closed.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let done = self.line.journal.entries().done;
        self.line.show(done, self.line.journal.now());
    }
}

/// Returns when no operation has finished for [`STANDSTILL`].
pub(crate) async fn standstill(journal: &Journal) -> Error {
    let (mut done, mut since) = (0, time::Instant::now());
    while since.elapsed() < STANDSTILL {
        time::sleep(LOOK).await;
        let now_done = journal.entries().done;
        if now_done != done {
            (done, since) = (now_done, time::Instant::now());
        }
    }
    format!("no operation finished within {STANDSTILL:?}, after {done} finished ones").into()
}
