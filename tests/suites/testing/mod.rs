//! The feature `testing`: a store in memory for transactional procedures, and the harness for tests of a service.

mod assertions;
mod at_once;
mod callers;
mod clients;
mod clock;
mod connect;
mod deaths;
mod harness;
mod in_memory;
mod lost_answers;
pub(crate) mod orders;
mod outages;
mod page;
mod postgres;
mod prelude;
mod records;
mod without_layer;
