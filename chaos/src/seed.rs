use rand::{SeedableRng as _, rngs::ChaCha8Rng};

use crate::fault::Family;

/// What all decisions of a run are drawn from.
///
/// Each subject has a stream of its own, so that what one draws does not depend on how far another has come: the same
/// seed gives the same operations, with the same habits, and the same faults at the same operations. What the machine
/// adds (which server a call meets, when a process gets its time) is not repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(pub(crate) u64);

/// What is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// How a client goes about an operation, by its number.
    Attempts(u32),
    /// The moments at which a client looks back, by its number.
    Client(u32),
    /// Which faults of a family there are, and when.
    Faults(Family),
    /// What an operation asks for, by its number.
    Operation(u32),
}

impl Seed {
    /// The stream of random numbers for a subject. The generator is one whose numbers never change.
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
    fn the_same_seed_decides_the_same_and_another_does_not() {
        let draw = |seed, subject| Seed(seed).rng(subject).random::<u64>();
        assert_eq!(draw(1, Subject::Operation(7)), draw(1, Subject::Operation(7)));
        assert_ne!(draw(1, Subject::Operation(7)), draw(2, Subject::Operation(7)));
        assert_ne!(draw(1, Subject::Operation(7)), draw(1, Subject::Operation(8)));
        assert_ne!(draw(1, Subject::Operation(0)), draw(1, Subject::Client(0)));
    }
}
