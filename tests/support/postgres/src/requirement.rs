//! Tests that need something that may be missing on a machine.

use std::{
    env,
    fmt::Display,
    io::{self, Write as _},
    thread,
};

/// Whether `IDEMPOTENCY_TEST_REQUIRE`, a comma-separated list, names `what`. A machine that has it must not skip its
/// tests unnoticed. The names of this crate are `container`, `installed-postgres`, `patroni` and `pgbouncer`.
pub fn required(what: &str) -> bool {
    env::var("IDEMPOTENCY_TEST_REQUIRE").is_ok_and(|list| names(&list, what))
}

/// Reports on standard error that a test is skipped because `what` is missing, and `why`. Writes to the stream
/// directly, because the test harness captures the output of tests that pass.
///
/// # Panics
///
/// `what` is [`required`].
#[track_caller]
pub fn skip(what: &str, why: impl Display) {
    assert!(!required(what), "IDEMPOTENCY_TEST_REQUIRE names {what}, which is missing: {why}");
    let test = thread::current();
    let line = format!("SKIPPED {}: needs {what}: {why}\n", test.name().unwrap_or("a test"));
    // Fails if standard error is closed.
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
