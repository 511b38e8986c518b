//! The ways to call the service.

use uuid::Uuid;

/// The number of ways.
pub(super) const WAYS: usize = 4;

/// A way to call the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Without the layer.
    Bare,
    /// Through the layer, without a key.
    PassedThrough,
    /// With a new key each time.
    First,
    /// With the key of a recorded call, replayed from the store.
    Replay,
}

impl Way {
    pub(super) const ALL: [Self; WAYS] = [Self::Bare, Self::PassedThrough, Self::First, Self::Replay];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "unwrapped",
            Self::PassedThrough => "without a key",
            Self::First => "first call",
            Self::Replay => "replay",
        }
    }

    /// Returns the key of the next call.
    pub(super) fn key(self) -> Option<Uuid> {
        match self {
            Self::Bare | Self::PassedThrough => None,
            Self::First => Some(Uuid::new_v4()),
            Self::Replay => Some(Uuid::from_u128(0x8e03_978e_40d5_43dd_bc93_6894_a57f_9324)),
        }
    }

    /// Returns the turns of a round. The two ways that are compared most closely have two turns each, so that a machine that gets
    /// slower or faster during a round affects both alike; they take turns to be first.
    pub(super) fn in_turn(round: usize) -> [Self; WAYS + 2] {
        let [one, other] =
            if round.is_multiple_of(2) { [Self::Bare, Self::PassedThrough] } else { [Self::PassedThrough, Self::Bare] };
        [one, other, other, one, Self::First, Self::Replay]
    }
}
