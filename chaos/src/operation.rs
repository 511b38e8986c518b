use std::time::Duration;

use rand::{Rng, RngExt as _};
use uuid::{Builder, Uuid};

use crate::{
    fault::{Family, FaultSet},
    seed::{Seed, Subject},
};

/// What the names of all that is created begin with.
const PREFIX: &str = "chaos-";

/// What the name of a [changed](Variant::Changed) request ends with.
const CHANGED: &str = "-changed";

/// What the e-mail address of an invitation ends with.
const DOMAIN: &str = "@example.com";

/// One thing that a client wants done exactly once. Its number is in the name of what it creates, so that its effects
/// can be counted without asking anybody.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) number: u32,
    pub(crate) key: Uuid,
    pub(crate) kind: Kind,
    pub(crate) user: User,
    pub(crate) habits: Habits,
}

/// What is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Cluster,
    Invitation,
    Project,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Alice,
    Bob,
}

/// How its client goes about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Whether the key is used once more, for another request, after the operation was acknowledged.
    pub(crate) changes: bool,
    /// How many of the first attempts the client hangs up on.
    pub(crate) hang_ups: u32,
    /// How many further calls go out at the same time as the first.
    pub(crate) hedges: usize,
    /// How long it waits for an answer.
    pub(crate) patience: Duration,
}

/// Which request goes with the operation's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Variant {
    /// The operation's own.
    Asked,
    /// Another one, which has to be refused.
    Changed,
}

impl Operation {
    pub(crate) fn new(seed: Seed, number: u32, faults: &FaultSet) -> Self {
        let mut rng = seed.rng(Subject::Operation(number));
        Self {
            number,
            key: Builder::from_random_bytes(rng.random()).into_uuid(),
            kind: match rng.random_range(0..10) {
                0..6 => Kind::Project,
                6..8 => Kind::Cluster,
                _ => Kind::Invitation,
            },
            user: if rng.random() { User::Alice } else { User::Bob },
            habits: Habits::new(&mut rng, faults),
        }
    }

    /// What is created by one of its requests is called this.
    pub(crate) fn name(&self, variant: Variant) -> String {
        let changed = if variant == Variant::Changed { CHANGED } else { "" };
        let domain = if self.kind == Kind::Invitation { DOMAIN } else { "" };
        format!("{PREFIX}{:06}{changed}{domain}", self.number)
    }

    /// Whose request created something of this name.
    pub(crate) fn of_name(name: &str) -> Option<(u32, Variant)> {
        let name = name.strip_suffix(DOMAIN).unwrap_or(name).strip_prefix(PREFIX)?;
        let (number, variant) = match name.strip_suffix(CHANGED) {
            Some(number) => (number, Variant::Changed),
            None => (name, Variant::Asked),
        };
        Some((number.parse().ok()?, variant))
    }
}

impl Habits {
    fn new(rng: &mut impl Rng, faults: &FaultSet) -> Self {
        let hang_ups = match rng.random_range(0..100) {
            0 => 2,
            1..8 => 1,
            _ => 0,
        };
        Self {
            changes: rng.random_ratio(1, 20),
            hang_ups: if faults.has(Family::HangUp) { hang_ups } else { 0 },
            hedges: match rng.random_range(0..100) {
                0..5 => 2,
                5..15 => 1,
                _ => 0,
            },
            patience: Duration::from_millis(rng.random_range(1000..3000)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_whose_it_is() {
        for number in 0..200 {
            let operation = Operation::new(Seed(1), number, &"all".parse().expect("a set"));
            for variant in [Variant::Asked, Variant::Changed] {
                assert_eq!(Operation::of_name(&operation.name(variant)), Some((number, variant)));
            }
        }
        for other in ["first", "chaos-", "chaos-x", "chaos-1-else"] {
            assert_eq!(Operation::of_name(other), None, "{other}");
        }
    }

    #[test]
    fn no_two_operations_have_the_same_key() {
        let keys = (0..1000).map(|number| Operation::new(Seed(1), number, &"all".parse().expect("a set")).key);
        assert_eq!(keys.collect::<std::collections::HashSet<_>>().len(), 1000);
    }
}
