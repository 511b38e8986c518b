//! How deep messages may nest.

use super::{CanonicalError, CanonicalErrorKind as Kind};

/// The maximum depth of nested messages and groups, the outermost message not counted: 100, the limit of prost's
/// decoder.
pub const MAX_DEPTH: u32 = 100;

/// Returns the depth of a message that lies in a message of this depth.
pub(super) fn deeper(depth: u32) -> Result<u32, CanonicalError> {
    if depth >= MAX_DEPTH {
        return Err(Kind::TooDeep.into());
    }
    Ok(depth + 1)
}
