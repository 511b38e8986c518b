//! The columns of `tenant.idempotency_overview`.

use serde::Deserialize;

/// How the layer's tables are, with times as ages in seconds.
#[derive(Debug, Deserialize)]
pub(super) struct Overview {
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
pub(super) const OVERVIEW: &str = "
    SELECT o.*, date_part('epoch', clock_timestamp() - o.last_vacuum) AS vacuum_seconds,
           date_part('epoch', clock_timestamp() - o.last_analyze) AS analyze_seconds,
           date_part('epoch', clock_timestamp() - o.oldest_expired) AS expired_seconds,
           date_part('epoch', clock_timestamp() - o.oldest_transaction) AS transaction_seconds,
           date_part('epoch', clock_timestamp() - o.oldest_prepared) AS prepared_seconds
    FROM tenant.idempotency_overview() o";
