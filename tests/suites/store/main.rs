//! The stores: the conformance suite on each, and tests of what only the store on PostgreSQL promises.

mod answers;
mod bouncer;
mod effect;
mod go_interceptor;
mod isolation;
mod logs;
mod memory;
mod migrations;
mod outages;
mod permits;
mod postgres;
mod prepared;
mod races;
mod record;
mod retention;
mod silence;
mod slow;
mod status;
mod sweep;
