//! The tests of the sample that concern its handlers and its store, on the sample with `--driver sqlx`.

/// The features that the sample is built with, and the flags that every process of it gets.
const FEATURES: &str = "sqlx";
const FLAGS: [&str; 2] = ["--driver", "sqlx"];

mod call;
mod eventually;
#[allow(dead_code, reason = "the suite of the sample uses the rest")]
mod process;
mod subject;

mod by_id;
mod concurrency;
mod disconnect;
mod hog;
mod operations;
mod outbox;
mod procedures;
mod reconcile;
mod refusal;
mod replay;
mod stop;
mod tenants;
