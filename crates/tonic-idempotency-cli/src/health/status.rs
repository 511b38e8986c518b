//! `tonic-idempotency status`: how the layer's tables are.

use indicatif::{HumanBytes, HumanCount};

use super::overview::{OVERVIEW, Overview};
use crate::{
    connection::{Connection, ConnectionOptions},
    failure::Failure,
    output::{self, ago, duration},
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
            print(&answer.row)?;
        }
    }
    Ok(())
}

fn print(overview: &Overview) -> Result<(), Failure> {
    let standby = if overview.is_standby { ", a standby" } else { "" };
    let last_migration = overview.migrations.last().map_or("none", |migration| migration);
    let partitions =
        if overview.partitions == 0 { String::new() } else { format!(" in {} partitions", overview.partitions) };
    let vacuum = |seconds: Option<f64>| seconds.map_or_else(|| "never".to_owned(), ago);
    let dead = overview.dead_rows.map_or_else(|| "?".to_owned(), |rows| HumanCount(rows).to_string());
    let transaction = match (overview.transaction_seconds, overview.oldest_transaction_pid) {
        (Some(seconds), Some(pid)) => {
            let application = overview.oldest_transaction_application.as_deref().unwrap_or_default();
            format!("open for {}, in the connection {pid} ({application})", duration(seconds))
        }
        _ => "none".to_owned(),
    };
    let unseen = match overview.unseen_sessions {
        0 => String::new(),
        sessions => format!("; {sessions} sessions not seen: {} needs pg_monitor", overview.table_owner),
    };
    for (name, value) in [
        ("server", format!("PostgreSQL {}, database {}{standby}", overview.server_version, overview.database)),
        ("migrations", format!("{last_migration}; functions of version {}", overview.version)),
        ("owner", overview.table_owner.clone()),
        (
            "table",
            format!(
                "{}{partitions}, and {} of indexes",
                HumanBytes(overview.table_bytes),
                HumanBytes(overview.index_bytes)
            ),
        ),
        ("rows", format!("about {}, and {dead} dead", HumanCount(overview.estimated_rows))),
        ("vacuum", format!("{}; statistics: {}", vacuum(overview.vacuum_seconds), vacuum(overview.analyze_seconds))),
        (
            "expired",
            overview.expired_seconds.map_or_else(
                || "no record waits for the sweep".to_owned(),
                |seconds| format!("the oldest record waits for the sweep since {}", duration(seconds)),
            ),
        ),
        ("transaction", format!("{transaction}{unseen}")),
        (
            "prepared",
            overview
                .prepared_seconds
                .map_or_else(|| "none".to_owned(), |seconds| format!("since {}", duration(seconds))),
        ),
        ("audit", format!("about {} notes", HumanCount(overview.audit_rows))),
    ] {
        output::line(&format!("{name:<12} {value}"))?;
    }
    Ok(())
}
