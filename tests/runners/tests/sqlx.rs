//! sqlx, which takes an advisory lock itself.

use std::path::Path;

use sqlx::{Connection as _, PgConnection, migrate::Migrator};
use tonic_idempotency::store::Schema;

use crate::{
    files::Files,
    runner::{Failed, Runner, tests_of},
    world::{OPTIONS, empty, is_complete, versions},
};

struct Sqlx;

impl Runner for Sqlx {
    const FORMAT: &'static str = "sqlx";
    const APPLICATION: &'static str = "20200101000000_billing.sql";
    const LATER: &'static str = "22000101000000_refunds.sql";
    const LOCKS: bool = true;

    async fn run(url: &str, folder: &Path, _lock: bool) -> Result<(), Failed> {
        let mut connection = PgConnection::connect(url).await?;
        Migrator::new(folder).await?.run(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

tests_of!(Sqlx);

/// Nothing is lost if an application reverts its migrations.
#[tokio::test(flavor = "multi_thread")]
async fn stay_if_they_are_reverted() {
    let (database, owner) = empty().await;
    let files = Files::of::<Sqlx>();
    files.remove("billing");
    files.put("0001_billing.up.sql", "CREATE SCHEMA billing; CREATE TABLE billing.invoices (id uuid PRIMARY KEY)");
    files.put("0001_billing.down.sql", "SELECT 1");
    files.write(&OPTIONS);
    Sqlx::run(database.url(), files.path(), false).await.expect("the runner");
    let before = versions(&owner, &Schema::default()).await;

    let mut connection = PgConnection::connect(database.url()).await.expect("a connection");
    let migrator = Migrator::new(files.path()).await.expect("the migrations");
    migrator.undo(&mut connection, 1).await.expect("all but the application's own are reverted");
    migrator.run(&mut connection).await.expect("and run again");
    assert_eq!(versions(&owner, &Schema::default()).await, before);
    is_complete(&owner, &Schema::default()).await;
}
