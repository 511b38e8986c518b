//! Work in the background: expired records are swept, calls without an outcome recovered.

mod background;
pub(crate) mod recovery;
pub(crate) mod sweeper;
