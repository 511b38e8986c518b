//! The sample with grpcurl as its client.

use scratch_postgres::TestDatabase;
use serde_json::json;
use tokio_postgres::Client;
use tonic_idempotency_tests::{Proxy, through_proxy};
use uuid::Uuid;

use super::{
    call::{Call, Grpcurl, Reply},
    get::get,
    process::{Process, Ready},
};

/// A duration longer than any test: an action with this delay does not happen.
pub(crate) const NEVER: &str = "1h";

/// The sample on a new database, and grpcurl to call it.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) process: Process,
    pub(crate) ready: Ready,
    pub(crate) grpcurl: Grpcurl,
    /// A superuser's connection, which is exempt from row-level security.
    pub(crate) client: Client,
    /// The last field, so that it is dropped after the process that uses it.
    pub(crate) database: TestDatabase,
}

impl Sample {
    /// Starts the sample; `None` if grpcurl is missing and the test is skipped. The outbox is not processed unless the
    /// flags have an `--outbox-delay`.
    pub(crate) async fn start(flags: &[&str]) -> Option<Self> {
        let grpcurl = Grpcurl::find()?;
        Some(Self::start_on(scratch_postgres::database(None).await, grpcurl, flags).await)
    }

    /// The same with a proxy between the sample and its server.
    pub(crate) async fn start_through_proxy(flags: &[&str]) -> Option<(Self, Proxy)> {
        let grpcurl = Grpcurl::find()?;
        let database = scratch_postgres::database(None).await;
        let (proxy, url) = through_proxy(database.url()).await;
        Some((Self::start_at(&url, database, grpcurl, flags).await, proxy))
    }

    /// Stops the sample as Ctrl-C does, and starts it again on the same database.
    pub(crate) async fn restart(mut self, flags: &[&str]) -> Self {
        self.process.signal("INT");
        assert!(self.process.ended().await.success());
        Self::start_on(self.database, self.grpcurl, flags).await
    }

    /// Kills the sample as a crash does, and starts it again on the same database.
    pub(crate) async fn crash(mut self, flags: &[&str]) -> Self {
        self.process.signal("KILL");
        assert!(!self.process.ended().await.success());
        Self::start_on(self.database, self.grpcurl, flags).await
    }

    async fn start_on(database: TestDatabase, grpcurl: Grpcurl, flags: &[&str]) -> Self {
        let url = database.url().to_owned();
        Self::start_at(&url, database, grpcurl, flags).await
    }

    async fn start_at(url: &str, database: TestDatabase, grpcurl: Grpcurl, flags: &[&str]) -> Self {
        let mut all = vec!["--listen", "127.0.0.1:0"];
        if !flags.contains(&"--outbox-delay") {
            all.extend(["--outbox-delay", NEVER]);
        }
        all.extend(flags);
        let mut process = Process::spawn(Some(url), &all);
        let ready = process.ready().await;
        let client = database.connect().await;
        Self { process, ready, grpcurl, client, database }
    }

    /// `CreateProject` in the first cluster, without a user and without a key.
    pub(crate) fn create_project(&self, name: &str) -> Call {
        let labels = json!({ "tier": "gold", "team": "a" });
        let request = json!({ "clusterId": self.ready.cluster_id, "name": name, "labels": labels });
        Call::new("ProjectService/CreateProject", request)
    }

    pub(crate) async fn as_alice(&self, call: Call) -> Reply {
        self.send(call.header("authorization", format_args!("Bearer {}", self.ready.tokens.alice))).await
    }

    pub(crate) async fn as_bob(&self, call: Call) -> Reply {
        self.send(call.header("authorization", format_args!("Bearer {}", self.ready.tokens.bob))).await
    }

    /// Sends a call unchanged.
    pub(crate) async fn send(&self, call: Call) -> Reply {
        let mut command = self.grpcurl.command(&call.arguments(), self.ready.address, &call.procedure);
        Reply::read(&command.output().await.expect("grpcurl runs"))
    }

    /// The metrics that it serves to Prometheus.
    pub(crate) async fn metrics(&self) -> String {
        get(self.ready.address, "prometheus.test", "/metrics").await
    }

    /// The number of rows of a table.
    pub(crate) async fn count(&self, table: &str) -> i64 {
        let row = self.client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await;
        row.and_then(|row| row.try_get(0)).expect("a count")
    }

    /// Whether the record of a key is complete; `None` if there is no record.
    pub(crate) async fn completed(&self, key: Uuid) -> Option<bool> {
        let select = "SELECT response_bytes IS NOT NULL FROM tenant.idempotency_keys WHERE idempotency_key = $1";
        let row = self.client.query_opt(select, &[&key]).await.expect("a look at the keys");
        row.map(|row| row.get(0))
    }
}
