//! The store in memory.

mod hold;
mod look_up;
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "public only for tests"))]
mod record;
mod state;
mod store;
mod transaction;

#[cfg(feature = "testing")]
pub use self::record::{Look, Record};
pub use self::store::MemoryStore;
