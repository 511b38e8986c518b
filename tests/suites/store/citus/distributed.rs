//! A database on all nodes of a cluster, set up with the statements of `docs/citus.md`.

use std::sync::{Mutex, atomic::AtomicUsize};

use tokio::sync::{self, Semaphore, SemaphorePermit};

use super::cluster::{Cluster, Place, SUPERUSER};
use crate::prelude::*;

/// The page.
const PAGE: &str = include_str!("../../../../docs/citus.md");

/// The roles of the page.
pub(super) const OWNER: &str = "my_owner_role";
pub(super) const API: &str = "my_api_role";

/// Adds the conformance suite's needs to the page's schema: a resource type whose table is on every node, with a status.
const PROJECTS: &str = include_str!("projects.sql");

/// The databases that the tests of this process share, one after the other.
const DATABASES: usize = 3;

/// A database of a cluster.
pub(super) struct Distributed {
    pub(super) coordinator: Place,
    pub(super) workers: Vec<Place>,
    pub(super) name: String,
    /// Gives a shared database back.
    turn: Option<(SemaphorePermit<'static>, &'static Mutex<Vec<String>>)>,
}

impl Distributed {
    /// Takes a database of the [shared cluster](Cluster::shared), without records, only for this test. `None`, and the test is
    /// skipped, where Citus is not installed.
    pub(super) async fn take() -> Option<Self> {
        static TURNS: Semaphore = Semaphore::const_new(DATABASES);
        static IDLE: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let cluster = Cluster::shared().await?;
        let turn = (TURNS.acquire().await.expect("it is never closed"), &IDLE);
        let idle = IDLE.lock().expect("no panic").pop();
        let mut distributed = match idle {
            Some(name) => Self::named(cluster, name),
            None => Self::new_on_shared(cluster).await,
        };
        distributed.turn = Some(turn);
        let empty = "TRUNCATE tenant.idempotency_keys, app.orders, app.projects";
        distributed.superuser().await.batch_execute(empty).await.expect("the tables are empty");
        Some(distributed)
    }

    /// Makes a database of the shared cluster for a test that sets something in it.
    pub(super) async fn make() -> Option<Self> {
        Some(Self::new_on_shared(Cluster::shared().await?).await)
    }

    async fn new_on_shared(cluster: &Cluster) -> Self {
        // One after the other, because they have roles in common.
        static MAKE: sync::Mutex<()> = sync::Mutex::const_new(());
        let _making = MAKE.lock().await;
        Self::new(cluster).await
    }
}

impl Distributed {
    /// Makes a database.
    pub(super) async fn new(cluster: &Cluster) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        let new = Self::named(cluster, format!("distributed_{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        for node in new.nodes() {
            let client = node.connect(SUPERUSER, "postgres").await;
            client.batch_execute(&format!("CREATE DATABASE {}", new.name)).await.expect("a database");
        }
        let (set_up, _) = PAGE.split_once("\n## What runs where").expect("the set-up");
        let (nodes, tables) = set_up.split_once("\nRun the migrations").expect("the migrations");
        let (tables, types) = tables.split_once("\nDistribute the table").expect("the distribution");
        let (register, grant) = types.split_once("\nThen run citus.sql again").expect("the second time");
        let distribute = migrations::distribution_sql(&Schema::default());
        new.run(nodes).await;
        let mut owner = new.coordinator.connect(OWNER, &new.name).await;
        migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
        migrations::limits(&owner, &Schema::default()).await.expect("the limits");
        new.run(tables).await;
        owner.batch_execute(&distribute).await.expect("the table is distributed");
        new.run(register).await;
        let superuser = new.superuser().await;
        // Citus sends a node the text that the client sent.
        for statement in PROJECTS.split("\n\n") {
            superuser.batch_execute(statement).await.expect("the projects");
        }
        let project = ResourceTypes::new([ResourceType::new("project", "project_id", "app.projects")]);
        migrations::register(&mut owner, &Schema::default(), &project).await.expect("the type is registered");
        owner.batch_execute(&distribute).await.expect("the functions are distributed again");
        new.run(grant).await;
        new
    }

    /// Runs the statements of a part of the page.
    async fn run(&self, part: &str) {
        for block in part.split("```sql\n").skip(1).map(|block| block.split("```").next().expect("its text")) {
            let (role, statements) = block.split_once('\n').expect("several lines");
            let role = role.strip_prefix("-- as ").expect("a role");
            let (role, nodes): (_, Vec<&Place>) = match role.strip_suffix(" on every node") {
                Some(role) => (role, self.nodes().collect()),
                None => (role, vec![&self.coordinator]),
            };
            for node in nodes {
                let client = node.connect(role, &self.name).await;
                for statement in statements.split_inclusive(";\n").flat_map(|statement| self.here(statement)) {
                    match client.batch_execute(&statement).await {
                        Err(error)
                            if error.code() == Some(&SqlState::DUPLICATE_OBJECT)
                                && statement.contains("CREATE ROLE") => {}
                        outcome => outcome.unwrap_or_else(|error| panic!("{statement}: {error:?}")),
                    }
                }
            }
        }
    }

    /// Adapts a statement of the page to this cluster: with its names, once for each worker.
    fn here(&self, statement: &str) -> Vec<String> {
        let at = |name: &str, Place { host, port }: &Place| {
            statement
                .replace("my_database", &self.name)
                .replace(&format!("'{name}.example', 5432"), &format!("'{host}', {port}"))
        };
        match statement {
            first if first.contains("worker-1.example") => {
                self.workers.iter().map(|worker| at("worker-1", worker)).collect()
            }
            further if further.contains("worker-2.example") => Vec::new(),
            _ => vec![at("coordinator", &self.coordinator)],
        }
    }

    fn named(cluster: &Cluster, name: String) -> Self {
        let mut places = cluster.places().into_iter();
        let coordinator = places.next().expect("a coordinator");
        Self { coordinator, workers: places.collect(), name, turn: None }
    }

    fn nodes(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.coordinator).chain(&self.workers)
    }

    /// A connection to a node, as a role of the page.
    pub(super) async fn connect(&self, node: &Place, role: &str) -> Client {
        node.connect(role, &self.name).await
    }

    /// A connection to the coordinator of a role that is exempt from row-level security.
    pub(super) async fn superuser(&self) -> Client {
        self.connect(&self.coordinator, SUPERUSER).await
    }

    /// The number of workers that hold records.
    pub(super) async fn nodes_with_records(&self) -> usize {
        let mut found = 0;
        for worker in &self.workers {
            let client = self.connect(worker, SUPERUSER).await;
            let shards = "SELECT format('%I.%I', s.schema_name, s.name) FROM (
                              SELECT 'tenant' AS schema_name, 'idempotency_keys_' || shardid AS name
                              FROM pg_dist_placement JOIN pg_dist_shard USING (shardid)
                              WHERE logicalrelid = 'tenant.idempotency_keys'::regclass
                                AND groupid = (SELECT groupid FROM pg_dist_local_group)) s";
            for shard in client.query(shards, &[]).await.expect("the shards") {
                let select = format!("SELECT EXISTS (SELECT FROM {})", shard.get::<_, String>(0));
                if value(&client, &select).await {
                    found += 1;
                    break;
                }
            }
        }
        found
    }

    /// The number of the worker that holds the rows of a user.
    pub(super) async fn worker_of(&self, user: Uuid) -> usize {
        let select = "SELECT d.nodeport
                      FROM pg_dist_placement p
                      JOIN pg_dist_node d ON d.groupid = p.groupid
                      WHERE p.shardid = get_shard_id_for_distribution_column('tenant.idempotency_keys', $1::uuid)";
        let row = self.superuser().await.query_one(select, &[&user]).await.expect("a node");
        let port = u16::try_from(row.get::<_, i32>(0)).expect("a port");
        self.workers.iter().position(|worker| worker.port == port).expect("a worker")
    }

    /// A call of a user whose records are on this worker.
    pub(super) async fn call_on(&self, worker: usize) -> Claim {
        loop {
            let call = any();
            if self.worker_of(*call.reservation.owner.as_uuid()).await == worker {
                return call;
            }
        }
    }

    /// The numbers of orders and of records, on all nodes.
    pub(super) async fn orders_and_records(&self) -> (usize, usize) {
        let superuser = self.superuser().await;
        let count = async |table: &str| {
            let row = superuser.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.expect("a count");
            usize::try_from(row.get::<_, i64>(0)).expect("a count")
        };
        (count("app.orders").await, count("tenant.idempotency_keys").await)
    }

    /// A pool of connections to the coordinator, as the API's role.
    pub(super) fn pool(&self, size: usize) -> Pool {
        tonic_idempotency_tests::pool(self.coordinator.config(API, &self.name), size, String::new())
    }

    /// A store on such a pool, as the page says, with timeouts that are long enough for a busy machine.
    pub(super) fn store(&self) -> PostgresStore {
        self.store_on(self.pool(8))
    }

    pub(super) fn store_on(&self, pool: Pool) -> PostgresStore {
        let types = [
            ResourceType::new("order", "order_id", "app.orders"),
            ResourceType::new("project", "project_id", "app.projects").tracked(),
        ];
        PostgresStore::new(pool, ResourceTypes::new(types))
            .max_batch(1)
            .timeout(Duration::from_secs(30))
            .status_timeout(Duration::from_secs(30))
    }
}

impl Drop for Distributed {
    fn drop(&mut self) {
        if let Some((_turn, idle)) = self.turn.take() {
            idle.lock().expect("no panic").push(std::mem::take(&mut self.name));
        }
    }
}
