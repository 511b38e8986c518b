//! The status of the work behind a created resource, and where it comes from.

pub(crate) mod resolver;
pub(crate) mod types;
