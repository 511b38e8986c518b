//! Throw-away PostgreSQL servers for the sample service and for the tests.
//!
//! A [`Server`] comes from the first [`Source`] that works:
//!
//! | source | what it takes | private | gone after |
//! |---|---|---|---|
//! | [`Source::Url`] | a server that runs already | no | never touched |
//! | [`Source::Installed`] | PostgreSQL's server binaries, `initdb` and `postgres` | yes | under a second |
//! | [`Source::Container`] | a container engine, and its image or a registry | yes | about a second |
//!
//! A private server leaves nothing behind, however its owner ends: [`Server::stop`], a drop, a panic, Ctrl-C, an exit
//! with the server in a `static`, `kill -9`. A shell script in a process group of its own holds the read end of a pipe
//! whose write end is the owner's; when the kernel closes that end, the script stops the server and removes what it
//! wrote. Two cases are left: the script itself killed with `kill -9`, and, for a container, none of `docker`, `podman`
//! and `curl` on `PATH`, which [`Server::describe`] then says.
//!
//! Private servers are set up for speed and not for keeping data: no `fsync`, no synchronous commit. Never measure
//! durability, or the price of it, on one. [`Server::start_durable`] gives one that keeps what was committed when its
//! processes are killed, which [`Server::kill`] does; the machine itself must not go down. [`Server::start_as_deployed`] gives
//! one with PostgreSQL's defaults, for benchmarks.
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
//! Tests share one server per process and take a database each:
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
//! [`PgBouncer`] puts one of its kind in front of a server, in transaction mode.
//!
//! # Environment
//!
//! | variable | meaning | defaults to |
//! |---|---|---|
//! | `IDEMPOTENCY_TEST_DATABASE_URL` | the server of [`test_server()`]; a role that may create databases | unset |
//! | `IDEMPOTENCY_TEST_POSTGRES` | `container` or `installed`: the only source that it tries | both, in this order |
//! | `IDEMPOTENCY_TEST_POSTGRES_IMAGE` | the image of [`Source::Container`], `name:tag` | `postgres:17-alpine` |
//! | `IDEMPOTENCY_TEST_REQUIRE` | comma list of what [`skip`] may not skip | unset: all may be skipped |

mod account;
mod background;
mod binaries;
mod bouncer;
mod connection;
mod container;
mod error;
mod installed;
mod leftovers;
mod port;
mod requirement;
mod server;
mod settings;
mod source;
mod supervisor;
mod test_database;
mod test_server;
mod url;

pub use bouncer::PgBouncer;
pub use error::{CrashError, StartError};
pub use requirement::{required, skip};
pub use server::Server;
pub use source::Source;
pub use test_database::{TestDatabase, database};
pub use test_server::test_server;
