//! Tests of the sample service, `cargo run --example organization`, as its users run it: the real program, on a real
//! PostgreSQL, called with the real grpcurl. `in_browser.rs` tests its page, and `on_sqlx.rs` another driver.

/// The features that the sample is built with, and the flags that every process of it gets.
const FEATURES: &str = "";
const FLAGS: [&str; 0] = [];

mod call;
mod eventually;
mod get;
pub(crate) mod process;
mod subject;

mod by_id;
mod concurrency;
mod disconnect;
mod driver;
mod hog;
mod host;
mod metrics;
mod operations;
mod outbox;
mod procedures;
mod reconcile;
mod refusal;
mod replay;
mod stop;
mod tenants;
