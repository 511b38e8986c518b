//! The length of a run.

use std::time::Duration;

/// The time within which operations begin and faults happen.
pub const LENGTH: Duration = Duration::from_secs(60);
