//! The names of the transit keys.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tonic_idempotency::Scope;

/// The longest prefix, in bytes.
const LONGEST: usize = 64;

/// The names of the transit keys. Each is of letters, digits and hyphens, as Vault demands, and of no other scope.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    /// `None` if Vault would take no name with this prefix.
    pub(crate) fn new(prefix: &str) -> Option<Self> {
        let is_name = prefix.len() <= LONGEST && is_segment(prefix);
        is_name.then(|| Self { prefix: prefix.to_owned() })
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of the callers in this scope, or of those in none. A hash, because a scope is any text of up to 255 bytes.
    pub(crate) fn of_scope(&self, scope: Option<&Scope>) -> String {
        let Some(scope) = scope else { return format!("{}-unscoped", self.prefix) };
        let mut name = format!("{}-scope-", self.prefix);
        for byte in Sha256::digest(scope.to_text().as_bytes()) {
            write!(name, "{byte:02x}").expect("a string takes all text");
        }
        name
    }

    /// The key that makes the hashes of requests.
    pub(crate) fn of_hashes(&self) -> String {
        format!("{}-hashes", self.prefix)
    }
}

/// Whether this is the path of a secrets engine: it becomes a part of an address as it is.
pub(crate) fn is_path(path: &str) -> bool {
    path.split('/').all(is_segment)
}

fn is_segment(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().next().is_some_and(is_word) && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_found_with_the_tools_of_a_shell() {
        let names = Names::new("idempotency").expect("a prefix");
        let acme = Scope::from_text("acme").expect("a scope");
        // printf %s acme | sha256sum
        let hash = "822b33ad87c148a0a20a5ba7cd5ebcaa68d36a18e7aad165554903f52ca82757";
        assert_eq!(names.of_scope(Some(&acme)), format!("idempotency-scope-{hash}"));
        assert_eq!(names.of_scope(None), "idempotency-unscoped");
        assert_eq!(names.of_hashes(), "idempotency-hashes");
    }

    #[test]
    fn have_a_prefix_that_vault_takes() {
        for good in ["idempotency", "a", "orders_2.eu-west", &"a".repeat(64)] {
            assert!(Names::new(good).is_some(), "{good}");
        }
        for bad in ["", "-a", ".", "..", "a/b", "a b", "ä", "a?b", "a%2f", &"a".repeat(65)] {
            assert!(Names::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn are_of_an_engine_with_a_path() {
        assert!(["transit", "teams/orders/transit"].into_iter().all(is_path));
        assert!(!["", "/transit", "transit/", "a//b", "a/../b", "a?b", "a b"].into_iter().any(is_path));
    }
}
