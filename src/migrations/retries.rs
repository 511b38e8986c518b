//! Repeated attempts, while other servers are first.

use std::time::Duration;

use crate::pause::Pauses;

/// The pauses between two attempts.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_millis(500));

/// The retries that are left, and the pauses before them.
pub(super) struct Retries {
    left: u32,
    pauses: Pauses,
}

impl Retries {
    pub(super) fn new(attempts: u32) -> Self {
        Self { left: attempts - 1, pauses: PAUSES }
    }

    /// Waits for the next attempt. Returns whether there is one.
    pub(super) async fn again(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tokio::time::sleep(self.pauses.next()).await;
        true
    }
}
