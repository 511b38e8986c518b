//! Random numbers for every decision, from one seed.

use rand::{SeedableRng as _, rngs::ChaCha8Rng};

use crate::fault::Family;

/// The source of all decisions of a run.
///
/// Each subject has its own stream, so that its numbers do not depend on how far another subject has come. The same
/// seed gives the same operations, with the same habits, and the same faults at the same operations. Effects of the
/// machine (which server gets a call, when a process is scheduled) are not repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(pub(crate) u64);

/// A subject of decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// The habits and retries of the client for an operation, by the operation's number.
    Attempts(u32),
    /// The moments at which a client looks back, by the client's number.
    Client(u32),
    /// The faults of a family, and their times.
    Faults(Family),
    /// The request of an operation, by the operation's number.
    Operation(u32),
}

impl Seed {
    /// The stream of random numbers for a subject. The generator's output is the same in every version of its crate.
    pub(crate) fn rng(self, subject: Subject) -> ChaCha8Rng {
        let (kind, number) = match subject {
            Subject::Attempts(number) => (1, number),
            Subject::Client(number) => (2, number),
            Subject::Faults(family) => (3, family as u32),
            Subject::Operation(number) => (4, number),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(self.0);
        rng.set_stream(kind << 32 | u64::from(number));
        rng
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    #[test]
    fn decides_the_same_for_the_same_seed_and_not_for_another() {
        let draw = |seed, subject| Seed(seed).rng(subject).random::<u64>();
        assert_eq!(draw(1, Subject::Operation(7)), draw(1, Subject::Operation(7)));
        assert_ne!(draw(1, Subject::Operation(7)), draw(2, Subject::Operation(7)));
        assert_ne!(draw(1, Subject::Operation(7)), draw(1, Subject::Operation(8)));
        assert_ne!(draw(1, Subject::Operation(0)), draw(1, Subject::Client(0)));
    }
}
