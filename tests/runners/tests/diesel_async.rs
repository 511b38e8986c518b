//! diesel's migrations through diesel-async, which needs no libpq. It takes no lock.

use std::path::Path;

use diesel_async::{AsyncConnection as _, AsyncMigrationHarness, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_migrations::{FileBasedMigrations, MigrationHarness as _};
use tonic_idempotency::store::Schema;

use crate::{
    files::Files,
    runner::{Failed, Runner, tests_of},
    world::{OPTIONS, empty, is_complete, versions},
};

struct Diesel;

impl Runner for Diesel {
    const FORMAT: &'static str = "diesel";
    const APPLICATION: &'static str = "2020-01-01-000000-0000_billing/up.sql";
    const LATER: &'static str = "2200-01-01-000000-0000_refunds/up.sql";
    const LOCKS: bool = false;

    async fn run(url: &str, folder: &Path, lock: bool) -> Result<(), Failed> {
        let mut connection = AsyncPgConnection::establish(url).await?;
        if lock {
            connection.batch_execute("SELECT pg_advisory_lock(7)").await?;
        }
        let mut harness = AsyncMigrationHarness::new(connection);
        harness.run_pending_migrations(FileBasedMigrations::from_path(folder)?)?;
        Ok(())
    }
}

tests_of!(Diesel);

/// As `diesel migration redo --all` does it.
#[tokio::test(flavor = "multi_thread")]
async fn stay_if_they_are_reverted() {
    let (database, owner) = empty().await;
    let files = Files::of::<Diesel>();
    files.put("2020-01-01-000000-0000_billing/down.sql", "SELECT 1");
    files.write(&OPTIONS);
    Diesel::run(database.url(), files.path(), false).await.expect("the runner");
    let before = versions(&owner, &Schema::default()).await;

    let connection = AsyncPgConnection::establish(database.url()).await.expect("a connection");
    let mut harness = AsyncMigrationHarness::new(connection);
    let migrations = FileBasedMigrations::from_path(files.path()).expect("the migrations");
    for _ in 0..OPTIONS.len() + 1 {
        harness.revert_last_migration(migrations.clone()).expect("one is reverted");
    }
    harness.run_pending_migrations(migrations).expect("and run again");
    assert_eq!(versions(&owner, &Schema::default()).await, before);
    is_complete(&owner, &Schema::default()).await;
}
