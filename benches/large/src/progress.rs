//! Messages about the progress of a measurement.

use std::time::{Duration, Instant};

use tokio::time;
use tokio_postgres::Client;
use tokio_util::task::AbortOnDropHandle;

use crate::{Error, report::count};

/// The time between two messages about long work.
const INTERVAL: Duration = Duration::from_secs(10);

/// Writes messages about the progress to standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    started: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    #[expect(clippy::print_stderr, reason = "messages to the user, beside the report on standard output")]
    pub(crate) fn say(&self, what: &str) {
        let seconds = self.started.elapsed().as_secs();
        eprintln!("[{:>3}:{:02}] {what}", seconds / 60, seconds % 60);
    }

    /// Reports progress at intervals, until the handle is dropped: the count that this query returns, out of `of`.
    pub(crate) fn watch(
        self,
        observer: Client,
        query: &'static str,
        of: u64,
        what: &'static str,
    ) -> AbortOnDropHandle<Result<(), Error>> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut ticks = time::interval(INTERVAL);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let done: i64 = observer.query_typed_one(query, &[]).await?.try_get(0)?;
                self.say(&format!("about {} of {} records {what}", count(done.unsigned_abs()), count(of)));
            }
        }))
    }
}
