//! The replicas that a write has to reach before the store believes it.

use std::time::Duration;

/// The replicas that must have received a write before the store believes it.
///
/// It concerns the writes that a retry must find again: a reservation, before its handler runs; an outcome, before it counts as recorded;
/// and the note that an outcome is unknown. Neither renewals nor releases wait: a lost renewal ends a lease earlier, and a lost release
/// leaves the key reserved until its lease ends. A replay does not wait, either: it may be of a record that no replica has yet.
///
/// With [`replicas`](Self::replicas), the store sends `WAIT` with each of these. **That does not make Redis consistent.** `WAIT` says that
/// so many replicas have *received* a write. It does not say that one of these replicas becomes the next primary, and a replica need not have
/// flushed the write to its disk. With one replica for each primary, which is the only one that can take over, a failover after
/// a confirmed write loses it only if that replica has lost its memory, too, or if an old primary that was cut off answers its clients.
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency_redis::Durability;
///
/// assert_eq!(Durability::default(), Durability::primary());
/// let durability = Durability::replicas(1).within(Duration::from_millis(500));
/// assert_eq!(durability.waits_for(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    replicas: u32,
    within: Duration,
}

impl Durability {
    /// Believes the primary without replicas. The default.
    pub const fn primary() -> Self {
        Self::replicas(0)
    }

    /// Waits until at least this number of replicas of the primary have received the write.
    pub const fn replicas(replicas: u32) -> Self {
        Self { replicas, within: Duration::from_secs(1) }
    }

    /// Sets how long to wait for the replicas, from 1 millisecond to 1 minute; other times are clamped to these. A call that has
    /// waited longer is refused with `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED`, whatever the policies; an outcome is recorded
    /// again in the background. Defaults to 1 second.
    #[must_use]
    pub const fn within(mut self, within: Duration) -> Self {
        let millis = within.as_millis();
        self.within = match millis {
            0 => Duration::from_millis(1),
            1..=60_000 => Duration::from_millis(millis as u64),
            _ => Duration::from_secs(60),
        };
        self
    }

    /// Returns the number of replicas.
    pub const fn waits_for(&self) -> u32 {
        self.replicas
    }

    /// Returns how long to wait: not at all without replicas.
    pub(crate) const fn time(&self) -> Duration {
        if self.is_primary() { Duration::ZERO } else { self.within }
    }

    pub(crate) const fn is_primary(&self) -> bool {
        self.replicas == 0
    }
}

impl Default for Durability {
    fn default() -> Self {
        Self::primary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_at_least_a_millisecond_and_at_most_a_minute() {
        let waits = |within| Durability::replicas(1).within(within).time();
        // `WAIT 1 0` would wait for ever.
        assert_eq!(waits(Duration::ZERO), Duration::from_millis(1));
        assert_eq!(waits(Duration::from_micros(2_500)), Duration::from_millis(2));
        assert_eq!(waits(Duration::MAX), Duration::from_secs(60));
    }
}
