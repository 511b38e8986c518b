//! `tonic-idempotency status`: how the layer's tables are.

use super::overview::{OVERVIEW, Overview};
use crate::{
    connection::{Connection, ConnectionOptions},
    failure::Failure,
    output,
};

/// Shows versions, sizes, dead rows, the last vacuum, the oldest expired record and the oldest transaction.
///
/// No user's data is shown, and nothing is noted.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    connection: ConnectionOptions,
}

pub(crate) async fn status(options: &Options) -> Result<(), Failure> {
    let connection = Connection::of_operator(&options.connection).await?;
    for answer in connection.ask::<Overview>(OVERVIEW, &[]).await? {
        if options.connection.json {
            output::line(&answer.json)?;
        } else {
            for (name, value) in answer.row.lines() {
                output::line(&format!("{name:<12} {value}"))?;
            }
        }
    }
    Ok(())
}
