//! `tonic-idempotency sweep`: deletes what has expired.

use std::time::Instant;

use indicatif::ProgressBar;
use tokio::time::sleep;
use tokio_postgres::types::Type;

use crate::{
    connection::{Connection, ConnectionOptions},
    failure::Failure,
    output::{self, counted},
};

/// The records of a statement, as of a `Sweeper`.
const BATCH: i32 = 250;

/// How long a sweep rests after each statement, in times of what it took.
const REST: u32 = 2;

/// Deletes all records that have expired, as the API's role: for a job, where no server has a `Sweeper`.
///
/// It deletes 250 at a time, and rests twice as long as that took. It may be stopped at any time, and several may run at once.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    connection: ConnectionOptions,
}

pub(crate) async fn sweep(options: &Options) -> Result<(), Failure> {
    let connection = Connection::of_api(&options.connection).await?;
    let begun = Instant::now();
    let progress = ProgressBar::new_spinner();
    let (mut deleted, mut reached) = (0, None::<String>);
    loop {
        let sent = Instant::now();
        // A procedure, which commits: outside of a transaction.
        let sweep = "CALL tenant.idempotency_sweep($1, NULL, $2)";
        let row = connection.call(sweep, &[(&BATCH, Type::INT4), (&reached, Type::TEXT)]).await?;
        let unread = |error: tokio_postgres::Error| Failure::NoAnswer(error.to_string());
        let batch: i64 = row.try_get("deleted").map_err(unread)?;
        reached = row.try_get("reached").map_err(unread)?;
        deleted += u64::try_from(batch).unwrap_or_default();
        progress.set_message(format!("{} deleted", counted(deleted, "expired record")));
        progress.tick();
        if batch < i64::from(BATCH) {
            break;
        }
        sleep(REST * sent.elapsed()).await;
    }
    progress.finish_and_clear();
    let seconds = begun.elapsed().as_secs_f64();
    if options.connection.json {
        return output::line(&serde_json::json!({ "deleted": deleted }).to_string());
    }
    output::line(&format!("{} deleted in {seconds:.1} s", counted(deleted, "expired record")))
}
