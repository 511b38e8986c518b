//! The client's layer around generated clients, in front of servers that are not ours and of ours.

mod attempts;
mod completion;
mod example;
mod foreign;
mod interoperability;
mod keys;
mod lost_answers;
mod pass_through;

#[path = "../sample/eventually.rs"]
mod eventually;

#[allow(dead_code, reason = "the sample's own tests use the rest")]
#[path = "../sample/process.rs"]
mod process;

/// The sample's features and flags: the defaults.
const FEATURES: &str = "";
const FLAGS: [&str; 0] = [];
