//! The stores: the conformance suite on each, and tests of what only the store on PostgreSQL promises.

mod adoption;
mod answers;
mod bouncer;
mod effect;
mod go_interceptor;
mod holder;
mod isolation;
mod logs;
mod memory;
mod migrations;
mod open_transactions;
mod organization;
mod outages;
mod permits;
mod postgres;
mod prepared;
mod races;
mod record;
mod registration;
mod retention;
mod rights;
mod shadows;
mod silence;
mod slow;
mod status;
mod sweep;
