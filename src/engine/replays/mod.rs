//! Records as answers: in memory, and as the application allows them.

pub(crate) mod cache;
pub(crate) mod hooks;
pub(crate) mod recorded;
