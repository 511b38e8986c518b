//! The fault harness: runs a seeded workload on the sample service while its servers, its database and the connections
//! between them fail. An independent auditor then counts what is left.
//!
//! ```text
//!   clients ──▶ servers (the sample, as processes) ──▶ proxies ──▶ PostgreSQL (private)
//!      │            ▲ killed, paused                   ▲ cut, stalled   ▲ killed
//!      │            └──────────── director ────────────┴────────────────┘
//!      └──▶ journal ──▶ auditor ◀── rows
//! ```
//!
//! With `--topology pgbouncer`, a PgBouncer is behind the servers' proxies, and another proxy between it and PostgreSQL. With
//! `--topology patroni`, the proxies are in front of HAProxy, or of each of several PostgreSQL servers. With `--topology redis-cluster`, the
//! servers have their records on a Redis Cluster, to which there is no proxy.
//!
//! | module | holds |
//! |---|---|
//! | `args`, `choice`, `run`, `plan`, `trial` | the command, the plan, one run in one mode |
//! | `clock` | the time that all processes share |
//! | `seed`, `operation`, `schedule`, `step`, `fault` | everything that is decided in advance, from one seed |
//! | `topology`, `fleet` | the parts that fail: PostgreSQL and what is in front of it, and the server processes, each with a way through `tcp_proxy` |
//! | `server` | the code of a server process: the sample, the hook that kills or stops it at a step, and the report of handlers' runs |
//! | `witness` | whether the database could be asked, over the way of each server |
//! | `faults`, `pace` | carrying out the faults, in step with the operations |
//! | `client`, `outcome`, `journal` | the clients, the answers that they got, and the log of all calls |
//! | `mover` | `--moving`: the table of keys is moved to partitions meanwhile |
//! | `last`, `auditor` | the last retries, and the verdict |
//! | `report`, `progress` | the output for a person |
//! | `sabotage` | promises broken on purpose, to test the auditor |
//!
//! The servers are this program itself, started again as `chaos serve`. A step is a `tracing` event of the engine or of
//! the sample. A server that was told to die at a step dies exactly there.

mod args;
mod auditor;
mod choice;
mod client;
mod clock;
mod error;
mod fault;
mod faults;
mod fleet;
mod journal;
mod last;
mod mode;
mod mover;
mod named;
mod operation;
mod outcome;
mod pace;
mod plan;
mod progress;
mod report;
mod run;
mod sabotage;
mod schedule;
mod seed;
mod server;
mod step;
mod topology;
mod trial;
mod urls;
mod witness;

pub use args::{Args, Command};
pub use error::Error;
pub use run::run;
pub use server::serve;
