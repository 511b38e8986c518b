//! Tests that need something which a machine may lack.

use std::{env, fmt::Display};

/// Whether `IDEMPOTENCY_TEST_REQUIRE`, a comma list, names `what`: a machine that has it must not skip its tests
/// unnoticed. The names of this crate are `container` and `installed-postgres`.
pub fn required(what: &str) -> bool {
    env::var("IDEMPOTENCY_TEST_REQUIRE").is_ok_and(|list| names(&list, what))
}

/// Says that a test is skipped for the want of `what`, and `why` it is missing.
///
/// # Panics
///
/// `what` is [`required`].
#[track_caller]
#[expect(clippy::print_stderr, reason = "a test that is skipped has to say so")]
pub fn skip(what: &str, why: impl Display) {
    assert!(!required(what), "IDEMPOTENCY_TEST_REQUIRE names {what}, and it is missing: {why}");
    eprintln!("SKIPPED for the want of {what}: {why}");
}

fn names(list: &str, what: &str) -> bool {
    list.split(',').any(|name| name.trim() == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_its_members_only() {
        assert!(names("container", "container"));
        assert!(names("container, installed-postgres", "installed-postgres"));
        assert!(!names("containers", "container"));
        assert!(!names("", "container"));
    }
}
