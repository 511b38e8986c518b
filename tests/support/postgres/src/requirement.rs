//! Tests that need something which a machine may lack.

use std::{
    env,
    fmt::Display,
    io::{self, Write as _},
    thread,
};

/// Whether `IDEMPOTENCY_TEST_REQUIRE`, a comma list, names `what`: a machine that has it must not skip its tests
/// unnoticed. The names of this crate are `container`, `installed-postgres` and `pgbouncer`.
pub fn required(what: &str) -> bool {
    env::var("IDEMPOTENCY_TEST_REQUIRE").is_ok_and(|list| names(&list, what))
}

/// Says that a test is skipped for the want of `what`, and `why` it is missing: on standard error itself, because the test
/// harness keeps to itself what a test that passes prints.
///
/// # Panics
///
/// `what` is [`required`].
#[track_caller]
pub fn skip(what: &str, why: impl Display) {
    assert!(!required(what), "IDEMPOTENCY_TEST_REQUIRE names {what}, and it is missing: {why}");
    let test = thread::current();
    let line = format!("SKIPPED {} for the want of {what}: {why}\n", test.name().unwrap_or("a test"));
    // Nobody may be listening, and then nobody is told.
    let _ = io::stderr().write_all(line.as_bytes());
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
