//! The binaries for upgrades.

use std::{env, path::PathBuf};

/// The variable with two directories of binaries.
const VARIABLE: &str = "IDEMPOTENCY_TEST_PG_UPGRADE";

/// The directories of the binaries to upgrade a server [from](crate::Source::Binaries) and [to](crate::Server::upgrade), as
/// `IDEMPOTENCY_TEST_PG_UPGRADE` says: two paths with a colon between them. `None` if it is not set.
///
/// # Panics
///
/// The variable has no colon.
pub fn upgrade_binaries() -> Option<(PathBuf, PathBuf)> {
    let value = env::var(VARIABLE).ok()?;
    let (old, new) = value.split_once(':').unwrap_or_else(|| panic!("{VARIABLE} is {value:?}; it must be OLD:NEW"));
    Some((old.into(), new.into()))
}
