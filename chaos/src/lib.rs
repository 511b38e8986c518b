//! The fault harness: a seeded workload on the sample service while its servers, its database and the connections
//! between them fail, and an independent auditor that counts what is left.
//!
//! ```text
//!   clients ──▶ servers (the sample, as processes) ──▶ proxies ──▶ PostgreSQL (private)
//!      │            ▲ killed, paused                   ▲ cut, stalled   ▲ killed, its table locked
//!      │            └──────────── director ────────────┴────────────────┘
//!      └──▶ journal ──▶ auditor ◀── rows
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `args`, `run`, `plan`, `trial` | the command; what is decided beforehand; one run in one mode |
//! | `seed`, `operation`, `schedule`, `step`, `fault` | what there is to decide, all from one seed |
//! | `database`, `fleet` | what fails: PostgreSQL, and the server processes, each behind a `tcp_proxy` |
//! | `server` | what runs in a server process: the sample, and what kills or stops it at a step |
//! | `faults`, `pace` | what makes the faults happen, and keeps them in step with the operations |
//! | `client`, `outcome`, `journal` | those who call, what they were told, and the book of all of it |
//! | `last`, `auditor` | the last retries, and the judgement |
//! | `report`, `progress` | what a person reads |
//! | `sabotage` | promises broken on purpose, to see that the auditor notices |
//!
//! Servers are this program itself, started again as `chaos serve`. A step is a `tracing` event of the engine or of the
//! sample; a server that was told to dies there and nowhere else.

mod args;
mod auditor;
mod client;
mod database;
mod error;
mod fault;
mod faults;
mod fleet;
mod journal;
mod last;
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
mod trial;

pub use args::{Args, Command};
pub use error::Error;
pub use run::run;
pub use server::serve;
