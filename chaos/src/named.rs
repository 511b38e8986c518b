//! Values with names, and sets of them, as on the command line.

use std::{collections::BTreeSet, fmt, str::FromStr};

use clap::ValueEnum;

/// The name of a value on the command line.
pub(crate) fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// A subset, as on the command line: `all`, `none`, or a comma-separated list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SomeOf<T: Ord>(pub(crate) BTreeSet<T>);

impl<T: ValueEnum + Copy + Ord> FromStr for SomeOf<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| {
            let names = || T::value_variants().iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
            T::from_str(text, false).map_err(|_| format!("unknown name {text:?}; expected one of {}", names()))
        };
        match text {
            "all" => Ok(Self(T::value_variants().iter().copied().collect())),
            "none" => Ok(Self(BTreeSet::new())),
            list => list.split(',').map(|name| one(name.trim())).collect::<Result<_, _>>().map(Self),
        }
    }
}

impl<T: ValueEnum + Copy + Ord> fmt::Display for SomeOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => f.write_str("none"),
            all if all == T::value_variants().len() => f.write_str("all"),
            _ => f.write_str(&self.0.iter().map(|one| name(*one)).collect::<Vec<_>>().join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fault::FaultSet;

    #[test]
    fn parses_a_set_from_its_text() {
        for text in ["all", "none", "silence,zombie"] {
            let set: FaultSet = text.parse().expect("a set");
            assert_eq!(set.to_string(), text);
        }
        assert!("zombie,storm".parse::<FaultSet>().expect_err("no such fault").contains("storm"));
    }
}
