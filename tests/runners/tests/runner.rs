//! A runner of migrations, and the tests that each has to pass.

use std::{error::Error, path::Path};

/// The error of a runner.
pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// A runner of migrations.
pub(crate) trait Runner {
    /// The name of its format.
    const FORMAT: &'static str;

    /// The application's own first migration, in the folder.
    const APPLICATION: &'static str;

    /// One that the application adds after those of the library.
    const LATER: &'static str;

    /// Is `true` if it lets one server at a time run migrations.
    const LOCKS: bool;

    /// Runs the migrations of the folder that it has not run, holding an advisory lock if `lock` says so, as the documentation
    /// recommends for runners that take none.
    async fn run(url: &str, folder: &Path, lock: bool) -> Result<(), Failed>;
}

/// Makes a test of each check.
macro_rules! tests_of {
    ($runner:ty) => {
        $crate::runner::tests_of!($runner:
            change_nothing_by_the_crate_afterwards
            change_nothing_after_the_crate
            have_other_names
            are_run_by_six_servers_at_once
            are_run_by_six_servers_at_once_without_a_lock
            are_run_by_the_crate_and_the_runner_at_once
            are_added_by_an_upgrade
        );
    };
    ($runner:ty: $($check:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $check() {
            $crate::checks::$check::<$runner>().await;
        }
    )*};
}

pub(crate) use tests_of;
