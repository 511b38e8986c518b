//! Seals bytes: only the holder of a key reads them.
//!
//! | module | holds |
//! |---|---|
//! | `key` | a key, with its id |
//! | `envelope` | sealed bytes, and their format |
//! | `padding` | the lengths that hide those of the text |

mod envelope;
mod key;
mod padding;

pub use self::{
    envelope::{NotOpened, id_of, is_envelope, open, seal},
    key::{InvalidKey, Key},
};
