//! Throw-away PostgreSQL servers for the sample service and for the tests.
//!
//! A [`Server`] comes from the first [`Source`] that works:
//!
//! | source | requirement | private | removal takes |
//! |---|---|---|---|
//! | [`Source::Url`] | a running server | no | not removed |
//! | [`Source::Installed`] | PostgreSQL's server binaries, `initdb` and `postgres` | yes | under a second |
//! | [`Source::Binaries`] | the same, in a given directory | yes | under a second |
//! | [`Source::Container`] | a container engine, and its image or a registry | yes | about a second |
//!
//! A private server leaves nothing behind, however its owner ends: [`Server::stop`], a drop, a panic, Ctrl-C, an exit
//! with the server in a `static`, `kill -9`. A shell script in its own process group holds the read end of a pipe; the
//! owner holds the write end. When the kernel closes the write end, the script stops the server and removes its files.
//! There are two exceptions: the script itself is killed with `kill -9`; or, for a container, none of `docker`,
//! `podman` and `curl` is on `PATH`, which [`Server::describe`] mentions.
//!
//! Private servers are configured for speed, not for durability: no `fsync`, no synchronous commit. Do not measure
//! durability, or its cost, on one. [`Server::start_durable`] starts a server that keeps committed data when its
//! processes are killed, for example by [`Server::kill`]; a crash of the machine may still lose it.
//! [`Server::start_as_deployed`] starts one with PostgreSQL's defaults, for benchmarks.
//!
//! ```no_run
//! # async fn example() -> Result<(), scratch_postgres::StartError> {
//! use scratch_postgres::{Server, Source};
//!
//! let server = Server::start(&[Source::Installed, Source::Container]).await?;
//! println!("{}: {}", server.describe(), server.url());
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Tests share one server per process, and each takes a new database:
//!
//! ```no_run
//! # async fn example() -> Result<(), tokio_postgres::Error> {
//! let database = scratch_postgres::database(None).await;
//! let client = database.connect().await;
//! client.batch_execute("CREATE TABLE seen (id uuid PRIMARY KEY)").await?;
//! # Ok(())
//! # }
//! ```
//!
//! The files of a private server without durability are in memory, if `/dev/shm` has 1 GiB of room and `TMPDIR` is not set. Else those of an
//! installed server are in the temporary directory, and those of a container in the container.
//!
//! The script `install` of this package installs servers of other versions than the machine's own. [`Server::upgrade`] moves a server to
//! another version.
//!
//! [`PgBouncer`] runs a PgBouncer in front of a server, in transaction mode. [`Pair`] is a primary with a standby, and [`Patroni`] three
//! servers of which Patroni makes one the primary.
//!
//! # Environment
//!
//! | variable | meaning | defaults to |
//! |---|---|---|
//! | `IDEMPOTENCY_TEST_DATABASE_URL` | the server of [`test_server()`]; a role that may create databases | unset |
//! | `IDEMPOTENCY_TEST_POSTGRES` | `container` or `installed`: the only source that it tries | both, in this order |
//! | `IDEMPOTENCY_TEST_POSTGRES_BIN` | the directory of the only binaries of [`Source::Installed`]; [`test_server()`] does not try a container by itself | unset: those that are installed |
//! | `IDEMPOTENCY_TEST_POSTGRES_IMAGE` | the image of [`Source::Container`], `name:tag` | `postgres:17-alpine` |
//! | `IDEMPOTENCY_TEST_PG_UPGRADE` | the binaries of [`upgrade_binaries()`]: two directories with a colon between them | unset |
//! | `IDEMPOTENCY_TEST_REQUIRE` | comma list of what [`skip`] may not skip | unset: all may be skipped |

mod account;
mod background;
mod binaries;
mod bouncer;
mod connection;
mod container;
mod error;
mod http;
mod installed;
mod leftovers;
mod memory;
mod pair;
mod patroni;
mod port;
mod program;
mod requirement;
mod server;
mod settings;
mod source;
mod supervisor;
mod test_database;
mod test_server;
mod upgrade;
mod url;

pub use bouncer::PgBouncer;
pub use error::{CrashError, StartError};
pub use pair::Pair;
pub use patroni::{Patroni, Replication};
pub use port::several as free_ports;
pub use program::find as find_program;
pub use requirement::{required, skip};
pub use server::Server;
pub use source::Source;
pub use supervisor::Supervisor;
pub use test_database::{TestDatabase, database};
pub use test_server::test_server;
pub use upgrade::upgrade_binaries;
