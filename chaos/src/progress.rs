//! Shows the progress of a run on stderr.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::Arc,
    time::Duration,
};

use tokio::{task::JoinHandle, time};

use crate::{journal::Journal, mode::Mode};

/// The interval between two updates on a terminal.
const ON_TERMINAL: Duration = Duration::from_secs(1);

/// The interval elsewhere, where every line stays.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Shows the progress of the run on stderr, until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    journal: Arc<Journal>,
    mode: Mode,
    operations: u32,
    terminal: bool,
}

/// The task that shows the progress; ends when dropped.
#[derive(Debug)]
pub(crate) struct Showing {
    progress: Arc<Progress>,
    task: JoinHandle<()>,
}

impl Progress {
    pub(crate) fn start(mode: Mode, journal: Arc<Journal>, operations: u32) -> Showing {
        let terminal = io::stderr().is_terminal();
        let progress = Arc::new(Self { journal, mode, operations, terminal });
        let shown = Arc::clone(&progress);
        let task = tokio::spawn(async move {
            let mut looks = time::interval(if terminal { ON_TERMINAL } else { ELSEWHERE });
            let mut before = 0;
            let mut at = shown.journal.now();
            loop {
                looks.tick().await;
                let (done, now) = (shown.journal.entries().done, shown.journal.now());
                let rate = f64::from(done - before) / (now - at).as_secs_f64().max(0.001);
                shown.show(rate);
                (before, at) = (done, now);
            }
        });
        Showing { progress, task }
    }

    fn show(&self, rate: f64) {
        let (done, calls, faults) = {
            let entries = self.journal.entries();
            // Clients that are processes of their own do not tell their calls.
            let calls = Some(entries.attempts.len()).filter(|calls| *calls > 0);
            (entries.done, calls.map(|calls| format!("{calls} calls, ")).unwrap_or_default(), entries.faults.len())
        };
        let (mode, operations, seconds) = (self.mode, self.operations, self.journal.now().as_secs());
        let line =
            format!("{mode}: {done} of {operations} operations, {calls}{faults} faults, {rate:.0}/s, {seconds} s");
        let (begin, end) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // Fails if stderr is closed.
        let _ = write!(io::stderr(), "{begin}{line}{end}");
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        self.task.abort();
        let seconds = self.progress.journal.now().as_secs_f64().max(0.001);
        let done = self.progress.journal.entries().done;
        self.progress.show(f64::from(done) / seconds);
        if self.progress.terminal {
            let _ = writeln!(io::stderr());
        }
    }
}
