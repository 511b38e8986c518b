//! A client whose connection loses answers, and which creates everything once all the same.
//!
//! | module | content |
//! |---|---|
//! | `run` | **how the layer is added to the client**, and its calls |
//! | `attempts` | shows each attempt, and loses the answers of some |
//! | `server` | the sample service, started for the client or given |
//! | `show` | the terminal |
//! | `args` | the command line |

mod args;
mod attempts;
mod run;
mod server;
mod show;

pub use args::Args;
pub use run::run;

/// The reason why the client cannot go on, readable for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
