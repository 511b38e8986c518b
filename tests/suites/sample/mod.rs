//! Tests of the sample service, `cargo run --example organization`, as its users run it: the real program, on a real
//! PostgreSQL, called with the real grpcurl. `in_browser.rs` tests its page.

mod call;
mod eventually;
mod get;
pub(crate) mod process;
mod subject;

mod alerts;
mod by_id;
mod hog;
mod host;
mod metrics;
mod operations;
mod outbox;
mod procedures;
mod prometheus;
mod reconcile;
mod refusal;
mod stop;
mod tenants;
