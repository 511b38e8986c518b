//! The limits of calls, and of outcomes that wait to be recorded.

pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod counter;
pub(crate) mod lines;
