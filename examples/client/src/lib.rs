//! A client whose connection loses answers, which may be killed, and which creates everything once all the same.
//!
//! | module | content |
//! |---|---|
//! | `client` | **how the layer is added to the client**, with a journal or without |
//! | `run` | the command, and its calls |
//! | `resume` | sends what an earlier client has left in the journal |
//! | `kill` | a client that is killed, and the next one |
//! | `attempts` | shows each attempt, and loses the answers of some |
//! | `server`, `directory` | the sample service, started for the client or given |
//! | `show` | the terminal |
//! | `args` | the command line |

mod args;
mod attempts;
mod client;
mod directory;
mod kill;
mod resume;
mod run;
mod server;
mod show;

pub use args::Args;
pub use run::run;

/// The reason why the client cannot go on, readable for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
