//! refinery, which takes no lock.

use std::path::Path;

use tokio_postgres::NoTls;

use crate::runner::{Failed, Runner, tests_of};

struct Refinery;

impl Runner for Refinery {
    const FORMAT: &'static str = "refinery";
    const APPLICATION: &'static str = "V1__billing.sql";
    const LATER: &'static str = "V100__refunds.sql";
    const LOCKS: bool = false;

    async fn run(url: &str, folder: &Path, lock: bool) -> Result<(), Failed> {
        let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        if lock {
            client.batch_execute("SELECT pg_advisory_lock(7)").await?;
        }
        let migrations = refinery::load_sql_migrations(folder)?;
        refinery::Runner::new(&migrations).run_async(&mut client).await?;
        Ok(())
    }
}

tests_of!(Refinery);
