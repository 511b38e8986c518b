//! The room on the disk.

use std::path::Path;

use rustix::fs::statvfs;

use crate::Error;

/// The bytes that a record of the measurements takes, with its index entries and the log of its insertion, generously.
const BYTES_PER_ROW: u64 = 600;

/// The bytes that are left free.
const RESERVE: u64 = 6 << 30;

/// Returns how many records the disk of this directory holds.
pub(crate) fn rows_that_fit(directory: &Path) -> Result<u64, Error> {
    let disk = statvfs(directory)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    Ok(free.saturating_sub(RESERVE) / BYTES_PER_ROW)
}
