//! The record that something sealed belongs to.

use crate::{
    caller::{Caller, OwnerId},
    key::KeyId,
};

/// The record that something sealed belongs to, and the caller who asks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "seal"), expect(dead_code, reason = "read by the sealer"))]
pub(crate) struct Subject<'a> {
    pub(crate) owner: OwnerId,
    pub(crate) key: KeyId,
    /// The path of the procedure.
    pub(crate) procedure: &'a str,
    /// `None` for a recovery, which knows only the owner.
    pub(crate) caller: Option<&'a Caller>,
}
