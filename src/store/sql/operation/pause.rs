//! The pauses between the attempts of an operation.

use std::time::Duration;

/// The first and the longest pause. Each is shortened at random by up to a half, so that operations that failed together do not meet again.
const PAUSES: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(250)];

/// Returns the pause after this many failures, at least one.
pub(in crate::store::sql) fn pause(failures: u32) -> Duration {
    let [first, longest] = PAUSES;
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest).mul_f64(1.0 - fastrand::f64() / 2.0)
}
