//! The sample that the clients call.

use scratch_postgres::TestDatabase;
use serde_json::json;
use tokio_postgres::Client;
use tonic_idempotency_tests::until;
use uuid::Uuid;

use crate::{
    call::Call,
    descriptors::Descriptors,
    process::{Process, Ready},
};

/// The sample on a new database; its outbox is not processed.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) descriptors: Descriptors,
    pub(crate) ready: Ready,
    /// A superuser's connection, which is exempt from row-level security.
    client: Client,
    _process: Process,
    /// The last field, so that it is dropped after the process that uses it.
    database: TestDatabase,
}

/// A lock on a cluster: handlers that refer to the cluster wait until it is released.
#[derive(Debug)]
pub(crate) struct Held {
    backend: i32,
    holder: Client,
}

impl Sample {
    pub(crate) async fn start() -> Self {
        let database = scratch_postgres::database(None).await;
        let flags = ["--listen", "127.0.0.1:0", "--outbox-delay", "1h"];
        let mut process = Process::spawn(Some(database.url()), &flags);
        let ready = process.ready().await;
        let client = database.connect().await;
        Self { descriptors: Descriptors::write(), ready, client, _process: process, database }
    }

    /// `CreateProject` in a cluster, as alice and without a key. The request has values that libraries encode
    /// differently: a map with several entries, an optional field, and text beyond ASCII.
    pub(crate) fn create_project(&self, cluster: Uuid, name: &str) -> Call {
        let labels =
            json!({ "zone": "b", "tier": "gold", "team": "a", "owner": "Zoë", "empty": "", "cost-centre": "7" });
        let message = json!({ "name": name, "labels": labels, "clusterId": cluster, "alias": "été" });
        self.as_alice(Call::new("ProjectService/CreateProject", message))
    }

    /// `CreateCluster`, as alice and without a key.
    pub(crate) fn create_cluster(&self, name: &str) -> Call {
        self.as_alice(Call::new("ClusterService/CreateCluster", json!({ "name": name, "region": "nl-1" })))
    }

    /// `AddInstall`, as alice and without a key.
    pub(crate) fn add_install(&self, name: &str) -> Call {
        let message = json!({ "clusterId": self.ready.cluster_id, "name": name, "version": "1.2.3" });
        self.as_alice(Call::new("ClusterService/AddInstall", message))
    }

    /// Says how many rows of a table have this name, if it is another number.
    pub(crate) async fn has(&self, expected: i64, table: &str, name: &str) -> Result<(), String> {
        let select = format!("SELECT count(*) FROM tenant.{table} WHERE name = $1");
        let created: i64 = self.client.query_one(&select, &[&name]).await.expect("a count").get(0);
        if created == expected { Ok(()) } else { Err(format!("{created} {table} were created, and not {expected}")) }
    }

    /// Makes the project's outbox rows old enough to be processed.
    pub(crate) async fn age(&self, project: Uuid) {
        let age = "UPDATE authz.outbox SET created = created - interval '2 hours' WHERE project_id = $1";
        let aged = self.client.execute(age, &[&project]).await.expect("the rows age");
        assert_eq!(aged, 1, "the outbox rows of project {project}");
    }

    /// Creates a cluster and locks it.
    pub(crate) async fn held_cluster(&self) -> (Uuid, Held) {
        let insert = "INSERT INTO tenant.clusters (organization_id, name, region)
                      SELECT organization_id, 'held', region FROM tenant.clusters WHERE id = $1 RETURNING id";
        let cluster: Uuid = self.client.query_one(insert, &[&self.ready.cluster_id]).await.expect("a cluster").get(0);
        let holder = self.database.connect().await;
        let backend = holder.query_one("SELECT pg_backend_pid()", &[]).await.expect("its number").get(0);
        holder.batch_execute("BEGIN").await.expect("a transaction");
        let hold = "SELECT FROM tenant.clusters WHERE id = $1 FOR UPDATE";
        holder.execute(hold, &[&cluster]).await.expect("the cluster is held");
        (cluster, Held { backend, holder })
    }

    /// Waits until a handler is blocked by the lock.
    pub(crate) async fn until_blocked(&self, held: &Held) {
        let select = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))";
        until("a handler waits for the cluster", async || {
            self.client.query_one(select, &[&held.backend]).await.expect("a look at the locks").get(0)
        })
        .await;
    }

    fn as_alice(&self, call: Call) -> Call {
        call.header("authorization", format_args!("Bearer {}", self.ready.tokens.alice))
    }
}

impl Held {
    pub(crate) async fn release(self) {
        self.holder.batch_execute("ROLLBACK").await.expect("the cluster is let go");
    }
}
