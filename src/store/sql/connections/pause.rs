//! The pauses between the attempts of an operation.

use std::time::Duration;

use crate::pause::{Pauses, shortened};

/// The pauses, each of which is shortened.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(4), Duration::from_millis(250));

/// Returns the pause after this many failures, at least one.
pub(in crate::store::sql) fn pause(failures: u32) -> Duration {
    shortened(PAUSES.after(failures.saturating_sub(1)))
}
