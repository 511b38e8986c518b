//! The names of records.

use tonic_idempotency::{KeyId, OwnerId};

const LONGEST: usize = 64;

/// The beginning of the names of all records of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(String);

impl Prefix {
    pub(crate) fn new(text: &str) -> Result<Self, InvalidPrefix> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        match !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidPrefix { prefix: text.to_owned() }),
        }
    }

    /// Returns the name of a record. The part in braces decides the slot. It consists of two UUIDs, whatever the user's own id is.
    pub(crate) fn name(&self, owner: OwnerId, key: KeyId) -> String {
        format!("{}:{{{}:{}}}", self.0, owner.as_uuid(), key.as_uuid())
    }

    /// Returns the pattern of the names of all records. No character of a prefix means anything in a pattern.
    pub(crate) fn pattern(&self) -> String {
        format!("{}:{{*}}", self.0)
    }

    /// Returns whose record has this name; `None` if it is not a name of this prefix.
    pub(crate) fn parse(&self, name: &str) -> Option<(OwnerId, KeyId)> {
        let ids = name.strip_prefix(&self.0)?.strip_prefix(":{")?.strip_suffix('}')?;
        let (owner, key) = ids.split_once(':')?;
        Some((OwnerId::new(owner.parse().ok()?), KeyId::new(key.parse().ok()?)))
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("idempotency".to_owned())
    }
}

/// A prefix that [`RedisStore::prefix`](crate::RedisStore::prefix) does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the prefix {prefix:?} has to have from 1 to 64 characters, each a letter or digit of ASCII or one of -_.:/ (a brace would decide \
     the slot of every record)"
)]
pub struct InvalidPrefix {
    prefix: String,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn takes_what_means_nothing_in_a_slot_or_a_pattern() {
        for prefix in ["idempotency", "a", "orders:eu-1/x_y.z", &"p".repeat(64)] {
            assert!(Prefix::new(prefix).is_ok(), "{prefix}");
        }
        for prefix in ["", "{a}", "a{", "}", "a*", "a?", "[a]", "a\\", "a b", "ü", "a\0", "a\n", &"p".repeat(65)] {
            assert_eq!(Prefix::new(prefix), Err(InvalidPrefix { prefix: prefix.to_owned() }), "{prefix:?}");
        }
    }

    #[test]
    fn finds_the_ids_in_a_name_and_in_no_other() {
        let prefix = Prefix::new("a:b").expect("a prefix");
        let (owner, key) = (OwnerId::new(Uuid::from_u128(1)), KeyId::new(Uuid::from_u128(2)));
        let name = prefix.name(owner, key);
        assert_eq!(name, "a:b:{00000000-0000-0000-0000-000000000001:00000000-0000-0000-0000-000000000002}");
        assert_eq!(prefix.parse(&name), Some((owner, key)));
        for other in ["a:b", "a:b:{}", "a:b:{1:2}", &name[1..], &format!("{name}x"), &format!("x{name}")] {
            assert_eq!(prefix.parse(other), None, "{other}");
        }
    }
}
