//! The test on sqlx that `docs/testing.md` links to.

use std::{
    env, fs,
    path::Path,
    process::{Command, Output},
};

/// A folder of an application: its own migration, and those that the command line writes into it.
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");

/// As a user runs it: the command line writes the migrations, and `cargo test` finds a server in `DATABASE_URL`.
#[tokio::test]
async fn the_test_on_sqlx_passes() {
    let database = scratch_postgres::database(None).await;
    let role = "CREATE ROLE my_api"; // the server may have it from another run
    let made = database.connect().await.batch_execute(role).await;
    assert!(made.is_ok() || made.is_err_and(|error| error.code().is_some_and(|code| code.code() == "42710")));

    for migration in fs::read_dir(MIGRATIONS).expect("the folder") {
        let migration = migration.expect("an entry").path();
        if migration.to_string_lossy().contains("_tonic_idempotency_") {
            fs::remove_file(migration).expect("a migration of an earlier run goes");
        }
    }
    let arguments = ["run", "--quiet", "-p", "tonic-idempotency-cli", "--", "migrations", "--format", "sqlx", "--out"];
    let written = cargo(&[&arguments[..], &[MIGRATIONS, "--grant", "my_api"]].concat(), None);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));

    let tested = cargo(&["test", "--quiet", "-p", "page-tests", "--test", "sqlx_test"], Some(database.url()));
    let output = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{output}{}", String::from_utf8_lossy(&tested.stderr));
    assert!(output.contains("test result: ok. 1 passed; 0 failed; 0 ignored"), "{output}");
}

/// Runs cargo in the target directory of this test.
fn cargo(arguments: &[&str], database: Option<&str>) -> Output {
    let test = env::current_exe().expect("the path of this test"); // target/debug/deps/pages-0123456789abcdef
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(arguments)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", test.ancestors().nth(3).expect("the target directory"));
    if let Some(url) = database {
        cargo.env("DATABASE_URL", url);
    }
    cargo.output().expect("cargo runs")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository")
}
