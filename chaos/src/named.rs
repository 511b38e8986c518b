//! Sets of named values on the command line.

use std::{collections::BTreeSet, fmt, str::FromStr};

/// A value of a fixed set, with a name.
pub(crate) trait Named: Copy + Ord + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// The value's name.
    fn name(self) -> &'static str;
}

/// A subset, as on the command line: `all`, `none`, or a comma-separated list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SomeOf<T: Ord>(BTreeSet<T>);

impl<T: Named> SomeOf<T> {
    pub(crate) fn has(&self, one: T) -> bool {
        self.0.contains(&one)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = T> {
        self.0.iter().copied()
    }
}

impl<T: Named> FromStr for SomeOf<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |name: &str| {
            let found = T::ALL.iter().copied().find(|one| one.name() == name);
            let names: Vec<_> = T::ALL.iter().map(|one| one.name()).collect();
            found.ok_or_else(|| format!("unknown name {name:?}; expected one of {}", names.join(", ")))
        };
        match text {
            "all" => Ok(Self(T::ALL.iter().copied().collect())),
            "none" => Ok(Self(BTreeSet::new())),
            list => list.split(',').map(|name| one(name.trim())).collect::<Result<_, _>>().map(Self),
        }
    }
}

impl<T: Named> fmt::Display for SomeOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => f.write_str("none"),
            all if all == T::ALL.len() => f.write_str("all"),
            _ => f.write_str(&self.each().map(T::name).collect::<Vec<_>>().join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fault::FaultSet;

    #[test]
    fn parses_a_set_from_its_text() {
        for text in ["all", "none", "full-pool,zombie"] {
            let set: FaultSet = text.parse().expect("a set");
            assert_eq!(set.to_string(), text);
        }
        assert!("zombie,storm".parse::<FaultSet>().expect_err("no such fault").contains("storm"));
    }
}
