//! The sample's own tables, on top of the library's.

use std::time::Duration;

use tokio::time;
use tokio_postgres::Client;
use tonic_idempotency::store::Schema;

use crate::error::Error;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The table in which refinery records the migrations that it has run, beside the library's own history.
const HISTORY: &str = "idempotency_organization_migrations";

/// How often to try, and the pause between two attempts.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Brings the database up to date: the library's migrations, then the sample's.
///
/// Of servers that start together, one is first with each migration. The others fail, and find it done on the next attempt.
///
/// # Errors
///
/// The database refuses a migration, or has others than these.
pub async fn run(client: &mut Client) -> Result<(), Error> {
    tonic_idempotency::migrations::run(client, &Schema::default()).await?;
    let mut runner = embedded::migrations::runner();
    runner.set_migration_table_name(HISTORY);
    for _ in 1..ATTEMPTS {
        if runner.run_async(client).await.is_ok() {
            return Ok(());
        }
        time::sleep(PAUSE).await;
    }
    runner.run_async(client).await?;
    Ok(())
}
