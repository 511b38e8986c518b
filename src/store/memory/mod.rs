//! The store in memory.

mod store;

pub use self::store::MemoryStore;
