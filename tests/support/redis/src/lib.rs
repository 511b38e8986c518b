//! Throw-away Redis servers for the tests: [one](Server), a primary with a replica and [Sentinels](Watched), or a [cluster](Cluster).
//!
//! They are the programs `redis-server` and `redis-cli` on `PATH` (Debian: `redis-server`, `redis-tools`), listen on free ports of the
//! loopback interface, and are removed however this process ends: a shell script in its own process group holds the read end of a pipe,
//! and this process the write end. When the kernel closes that, the script kills the server and removes its files.
//!
//! All functions block the thread.
//!
//! ```no_run
//! # fn example() -> Result<(), scratch_redis::StartError> {
//! let server = scratch_redis::Server::start(&["appendonly yes"])?;
//! println!("{}", server.url());
//! server.kill();
//! server.restart()?;
//! # Ok(())
//! # }
//! ```

mod cluster;
mod error;
mod programs;
mod server;
mod watched;

pub use self::{cluster::Cluster, error::StartError, programs::missing, server::Server, watched::Watched};
