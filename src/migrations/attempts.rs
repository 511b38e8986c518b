//! Repeated attempts, while other servers are first.

use std::time::Duration;

/// The first and the longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The attempts that are left, and the pause before the next one.
pub(super) struct Attempts {
    left: u32,
    pause: Duration,
}

impl Attempts {
    pub(super) fn new(attempts: u32) -> Self {
        Self { left: attempts - 1, pause: FIRST_PAUSE }
    }

    /// Waits for the next attempt. Returns whether there is one.
    pub(super) async fn again(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
