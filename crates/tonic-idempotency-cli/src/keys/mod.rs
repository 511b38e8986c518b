//! Keys without an outcome: which there are, why, and how to free them.

mod inspect;
mod key;
mod list;
mod release;
mod state;

#[cfg(feature = "redis")]
pub(crate) use self::key::Key;
pub(crate) use self::{
    inspect::{Options as InspectOptions, inspect},
    list::{Options as ListOptions, list},
    release::{Options as ReleaseOptions, release},
};
