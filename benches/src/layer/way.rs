use uuid::Uuid;

/// How many there are.
pub(super) const WAYS: usize = 5;

/// How the echo is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Without the layer.
    Bare,
    /// Through the layer, without a key.
    PassedThrough,
    /// With a new key each time.
    First,
    /// With the key of a call that is recorded, as the store is asked.
    Replay,
    /// The same, as the layer remembers.
    Remembered,
}

impl Way {
    pub(super) const ALL: [Self; WAYS] = [Self::Bare, Self::PassedThrough, Self::First, Self::Replay, Self::Remembered];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "unwrapped",
            Self::PassedThrough => "without a key",
            Self::First => "first call",
            Self::Replay => "replay",
            Self::Remembered => "replay, from memory",
        }
    }

    /// The key of the next call.
    pub(super) fn key(self) -> Option<Uuid> {
        match self {
            Self::Bare | Self::PassedThrough => None,
            Self::First => Some(Uuid::new_v4()),
            Self::Replay | Self::Remembered => Some(Uuid::from_u128(0x8e03_978e_40d5_43dd_bc93_6894_a57f_9324)),
        }
    }

    /// The turns of a round. The two that are held against each other most closely have two of them, so that what gets slower or
    /// faster in the course of a round weighs on both alike; and by turns one or the other is first.
    pub(super) fn in_turn(round: usize) -> [Self; WAYS + 2] {
        let [one, other] =
            if round.is_multiple_of(2) { [Self::Bare, Self::PassedThrough] } else { [Self::PassedThrough, Self::Bare] };
        [one, other, other, one, Self::First, Self::Replay, Self::Remembered]
    }
}
