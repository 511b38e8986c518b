//! The store in memory.

mod hold;
mod look_up;
mod record;
mod state;
mod store;
mod transaction;

pub use self::store::MemoryStore;
