//! The processor time of this process and of PostgreSQL.

use std::{fs, path::PathBuf, time::Duration};

use procfs::process::{self, Process};
use tokio_postgres::Client;

use crate::error::Error;

/// A PostgreSQL server whose processes are on this machine.
#[derive(Debug)]
pub(crate) struct ServerProcesses {
    postmaster: i32,
}

impl ServerProcesses {
    /// Finds the processes of the server that a superuser is connected to.
    pub(crate) async fn of(client: &Client) -> Result<Self, Error> {
        let directory: String = client.query_one("SELECT current_setting('data_directory')", &[]).await?.try_get(0)?;
        let pid = fs::read_to_string(PathBuf::from(directory).join("postmaster.pid"))?;
        let postmaster = pid.lines().next().unwrap_or_default().trim().parse()?;
        Ok(Self { postmaster })
    }

    /// Returns the processor time of all of them, including those that have ended.
    pub(crate) fn processor_time(&self) -> Result<Duration, Error> {
        let mut ticks = 0;
        for process in process::all_processes()?.flatten() {
            // A process that ends now is counted with its parent the next time.
            let Ok(stat) = process.stat() else { continue };
            if stat.pid == self.postmaster {
                ticks += stat.utime + stat.stime + stat.cutime.unsigned_abs() + stat.cstime.unsigned_abs();
            } else if stat.ppid == self.postmaster {
                ticks += stat.utime + stat.stime;
            }
        }
        Ok(of_ticks(ticks))
    }
}

/// Returns the processor time of this process.
pub(crate) fn own_processor_time() -> Result<Duration, Error> {
    let stat = Process::myself()?.stat()?;
    Ok(of_ticks(stat.utime + stat.stime))
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}
