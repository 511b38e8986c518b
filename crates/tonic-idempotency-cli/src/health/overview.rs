//! The columns of `tenant.idempotency_overview`.

use indicatif::{HumanBytes, HumanCount};
use serde::Deserialize;

use crate::output::{ago, duration, plain};

/// How the layer's tables are, with times as ages in seconds.
#[derive(Debug, Deserialize)]
pub(crate) struct Overview {
    pub(super) server_version: String,
    pub(super) database: String,
    pub(super) is_standby: bool,
    pub(super) table_owner: String,
    pub(super) version: i32,
    pub(super) migrations: Vec<String>,
    pub(super) partitions: i32,
    pub(super) table_bytes: u64,
    pub(super) index_bytes: u64,
    pub(super) estimated_rows: u64,
    pub(super) dead_rows: Option<u64>,
    pub(super) vacuum_seconds: Option<f64>,
    pub(super) analyze_seconds: Option<f64>,
    pub(super) expired_seconds: Option<f64>,
    pub(super) transaction_seconds: Option<f64>,
    pub(super) oldest_transaction_pid: Option<i32>,
    pub(super) oldest_transaction_application: Option<String>,
    pub(super) prepared_seconds: Option<f64>,
    pub(super) unseen_sessions: u64,
    pub(super) audit_rows: u64,
}

/// The query of it.
pub(crate) const OVERVIEW: &str = "
    SELECT o.*, date_part('epoch', clock_timestamp() - o.last_vacuum) AS vacuum_seconds,
           date_part('epoch', clock_timestamp() - o.last_analyze) AS analyze_seconds,
           date_part('epoch', clock_timestamp() - o.oldest_expired) AS expired_seconds,
           date_part('epoch', clock_timestamp() - o.oldest_transaction) AS transaction_seconds,
           date_part('epoch', clock_timestamp() - o.oldest_prepared) AS prepared_seconds
    FROM tenant.idempotency_overview() o";

/// The numbers of packs begin here.
const PACKS: u32 = 100;

impl Overview {
    /// Returns the migrations that every database has; or the packs.
    pub(crate) fn migrations(&self, packs: bool) -> impl Iterator<Item = &str> {
        let number = |migration: &str| migration.strip_prefix('V')?.split(' ').next()?.parse::<u32>().ok();
        let chosen = move |migration: &&str| number(migration).is_some_and(|number| (number >= PACKS) == packs);
        self.migrations.iter().map(String::as_str).filter(chosen)
    }

    /// Returns a line for each thing: its name, and how it is.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let standby = if self.is_standby { ", a standby" } else { "" };
        let last_migration = self.migrations(false).last().unwrap_or("none");
        let packs: String = self.migrations(true).map(|pack| format!(", {pack}")).collect();
        let partitions =
            if self.partitions == 0 { String::new() } else { format!(" in {} partitions", self.partitions) };
        let vacuum = |seconds: Option<f64>| seconds.map_or_else(|| "never".to_owned(), ago);
        let dead = self.dead_rows.map_or_else(|| "?".to_owned(), |rows| HumanCount(rows).to_string());
        let transaction = match (self.transaction_seconds, self.oldest_transaction_pid) {
            (Some(seconds), Some(pid)) => {
                let application = plain(self.oldest_transaction_application.as_deref().unwrap_or_default());
                format!("open for {}, in the connection {pid} ({application})", duration(seconds))
            }
            _ => "none".to_owned(),
        };
        let unseen = match self.unseen_sessions {
            0 => String::new(),
            sessions => format!("; {sessions} sessions not seen: {} needs pg_monitor", self.table_owner),
        };
        vec![
            ("server", format!("PostgreSQL {}, database {}{standby}", self.server_version, self.database)),
            ("migrations", format!("{last_migration}{packs}; functions of version {}", self.version)),
            ("owner", self.table_owner.clone()),
            (
                "table",
                format!(
                    "{}{partitions}, and {} of indexes",
                    HumanBytes(self.table_bytes),
                    HumanBytes(self.index_bytes)
                ),
            ),
            ("rows", format!("about {}, and {dead} dead", HumanCount(self.estimated_rows))),
            ("vacuum", format!("{}; statistics: {}", vacuum(self.vacuum_seconds), vacuum(self.analyze_seconds))),
            (
                "expired",
                self.expired_seconds.map_or_else(
                    || "no record waits for the sweep".to_owned(),
                    |seconds| format!("the oldest record waits for the sweep since {}", duration(seconds)),
                ),
            ),
            ("transaction", format!("{transaction}{unseen}")),
            (
                "prepared",
                self.prepared_seconds
                    .map_or_else(|| "none".to_owned(), |seconds| format!("since {}", duration(seconds))),
            ),
            ("audit", format!("about {} notes", HumanCount(self.audit_rows))),
        ]
    }
}
