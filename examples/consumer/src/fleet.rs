//! The worker processes.

use std::{env, process::Stdio};

use tokio::process::{Child, Command};

use crate::{Error, nats::ACK_WAIT};

/// The number of workers. The first one is slow, and is neither killed nor updated. The others come back with the next release when they
/// are killed, so that both have the same events.
const WORKERS: usize = 4;

/// The workers, which end with this process.
pub(crate) struct Fleet {
    nats: String,
    database: String,
    workers: Vec<Child>,
    /// How many have been killed.
    pub(crate) killed: usize,
}

impl Fleet {
    pub(crate) fn start(nats: &str, database: String) -> Result<Self, Error> {
        let mut fleet = Self { nats: nats.to_owned(), database, workers: Vec::new(), killed: 0 };
        for worker in 0..WORKERS {
            let worker = fleet.spawn(worker)?;
            fleet.workers.push(worker);
        }
        Ok(fleet)
    }

    /// Kills a worker, as `kill -9` does, and starts another in its place.
    pub(crate) async fn kill_one(&mut self) -> Result<(), Error> {
        let worker = 1 + self.killed % (WORKERS - 1);
        self.workers[worker].kill().await?;
        self.killed += 1;
        self.workers[worker] = self.spawn(worker)?;
        Ok(())
    }

    /// Checks that no worker has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        for worker in &mut self.workers {
            if let Some(status) = worker.try_wait()? {
                return Err(format!("a worker has ended by itself: {status}").into());
            }
        }
        Ok(())
    }

    fn spawn(&self, worker: usize) -> Result<Child, Error> {
        let release = if self.killed == 0 { 1 } else { 2 };
        let slow = if worker == 0 { ACK_WAIT + ACK_WAIT / 2 } else { Default::default() };
        let child = Command::new(env::current_exe()?)
            .args(["worker", &self.nats, &self.database])
            .args(["--slow", &slow.as_millis().to_string(), "--release", &release.to_string()])
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }
}
