//! Workers on NATS JetStream that bill each order once, although messages are published and delivered more than once, workers are killed,
//! and acknowledgements lost.
//!
//! | module | has |
//! |---|---|
//! | `worker` | the worker's loop: **the code to copy** |
//! | `billing` | the operation: its event, its handler, its error |
//! | `fit` | what a consumer and an operation need of each other |
//! | `audit` | the count at the end |
//! | `args`, `run` | the command line; the run from start to end |
//! | `orders`, `faults`, `fleet` | what goes wrong: orders that come twice, the faults of workers, workers that are killed |
//! | `database`, `nats` | private servers |

mod args;
mod audit;
mod billing;
mod database;
mod error;
mod faults;
mod fit;
mod fleet;
mod nats;
mod orders;
mod run;
mod worker;

pub use self::{args::Args, error::Error, nats::Nats, run::run};
