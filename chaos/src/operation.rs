//! The operations that the clients want done.

use std::time::Duration;

use rand::{Rng, RngExt as _};
use uuid::{Builder, Uuid};

use crate::{
    fault::{Family, FaultSet},
    seed::{Seed, Subject},
};

/// The prefix of the names of everything that is created.
pub(crate) const NAME: &str = "chaos-";

/// The suffix of the name of a [changed](Variant::Changed) request.
const CHANGED: &str = "-changed";

/// The suffix of an invitation's e-mail address.
const DOMAIN: &str = "@example.com";

/// One thing that a client wants done exactly once. Its number is part of the name of what it creates, so that its
/// effects can be counted only in the database.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) number: u32,
    pub(crate) key: Uuid,
    pub(crate) kind: Kind,
    pub(crate) user: User,
    pub(crate) habits: Habits,
}

/// The kind of row that is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Cluster,
    Invitation,
    Project,
}

/// The user who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Alice,
    Bob,
}

/// The client's habits for the operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Whether the key is used again for another request, after the operation was acknowledged.
    pub(crate) changes: bool,
    /// The number of first attempts that the client hangs up on.
    pub(crate) hang_ups: u32,
    /// The number of further calls that go out at the same time as the first.
    pub(crate) hedges: usize,
    /// The time that the client waits for an answer.
    pub(crate) patience: Duration,
}

/// The request that is sent with the operation's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Variant {
    /// The operation's own.
    Asked,
    /// Another request, which the service must refuse.
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

    /// The name of what one of its requests creates.
    pub(crate) fn name(&self, variant: Variant) -> String {
        let domain = if self.kind == Kind::Invitation { DOMAIN } else { "" };
        let changed = if variant == Variant::Changed { CHANGED } else { "" };
        format!("{NAME}{:06}{changed}{domain}", self.number)
    }

    /// The operation and the request that created something of this name.
    pub(crate) fn of_name(name: &str) -> Option<(u32, Variant)> {
        let name = name.strip_suffix(DOMAIN).unwrap_or(name).strip_prefix(NAME)?;
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
            hang_ups: if faults.0.contains(&Family::HangUp) { hang_ups } else { 0 },
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
    fn finds_the_operation_and_the_request_by_the_name() {
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
    fn gives_each_operation_a_key_of_its_own() {
        let keys = (0..1000).map(|number| Operation::new(Seed(1), number, &"all".parse().expect("a set")).key);
        assert_eq!(keys.collect::<std::collections::HashSet<_>>().len(), 1000);
    }
}
