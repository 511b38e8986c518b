//! The store in memory.

mod hold;
mod record;
mod state;
mod store;
mod transaction;

pub use self::store::MemoryStore;
