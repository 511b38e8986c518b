//! The stores, held to their contract, and PostgreSQL to its own promises on top.

mod bouncer;
mod effect;
mod go_interceptor;
mod isolation;
mod memory;
mod migrations;
mod outages;
mod postgres;
mod prepared;
mod races;
mod record;
mod retention;
mod status;
mod sweep;
