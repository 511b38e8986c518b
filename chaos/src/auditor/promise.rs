//! The promises that are audited.

use std::fmt;

use clap::ValueEnum;

use crate::named::name;

/// A promise of the service. Its name is that of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Promise {
    #[value(name = "duplicates")]
    NothingTwice,
    #[value(name = "runs beside or after the one")]
    NothingBeside,
    #[value(name = "lost acknowledged responses")]
    NothingLost,
    #[value(name = "wrong replays")]
    NoWrongReplay,
    #[value(name = "executed though refused")]
    NothingThoughRefused,
    #[value(name = "unprotected runs without need")]
    NothingUnprotected,
    #[value(name = "stuck keys")]
    NothingStuck,
    #[value(name = "unexpected answers and ends")]
    NothingElse,
}

impl Promise {
    /// Whether it can be kept only with the records and effects that the database has acknowledged.
    pub(crate) fn rests_upon_records(self) -> bool {
        matches!(
            self,
            Self::NothingTwice
                | Self::NothingBeside
                | Self::NothingLost
                | Self::NoWrongReplay
                | Self::NothingThoughRefused
        )
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(*self))
    }
}
