//! What the integration tests share.

pub mod catalog;
mod database;
pub mod fuzz;
mod program;
pub mod shop;
mod until;

pub use database::{API_LOGIN, API_ROLE, Database, User, rows_read};
pub use program::{binary, example};
pub use tcp_proxy::Proxy;
pub use until::until;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
