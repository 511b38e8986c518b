//! Decides whether the files of servers are in memory.
//!
//! A new database is some hundred files, and a file system on a disk takes longer to make and to delete them than the database takes for the
//! rest of a test.

use std::env;

use rustix::fs::statvfs;

/// Linux's directory for files in memory.
pub(crate) const DIRECTORY: &str = "/dev/shm";

/// The bytes that a server's files may take: several databases, and the log of their changes.
const ROOM: u64 = 1 << 30;

/// Whether there is room for a server's files in memory. If the environment names another place for temporary files, they are there.
pub(crate) fn has_room() -> bool {
    env::var_os("TMPDIR").is_none()
        && statvfs(DIRECTORY).is_ok_and(|has| has.f_bavail.saturating_mul(has.f_frsize) >= ROOM)
}
