//! The state that the calls of one layer share.

pub(crate) mod pace;
pub(crate) mod reconcilers;
pub(crate) mod shutdown;
pub(crate) mod single_flight;
pub(crate) mod state;
pub(crate) mod tracker;
pub(crate) mod watchers;
