//! The driver for diesel-async on a real PostgreSQL: the conformance suite of stores, and transactional mode.

mod conformance;
mod pools;
