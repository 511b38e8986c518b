//! Databases with the schema of the service.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod};
use scratch_postgres::{PgBouncer, TestDatabase};
use tcp_proxy::Proxy;
use tokio::{
    net::lookup_host,
    sync::{Mutex, OnceCell},
};
use tokio_postgres::{Client, Config, NoTls, config::Host, types::Type};
use tonic_idempotency::{
    migrations,
    status::{OutboxStatus, Resource},
    store::{PostgresStore, Schema, SqlStore, driver::Driver},
};
use uuid::Uuid;

/// The role of the API. It is not a superuser and owns nothing.
pub const API_ROLE: &str = "idempotency_tests_api";

/// A login role with the rights of [`API_ROLE`], for shared connections: a role that is set on an open connection would
/// carry over to the next client.
pub const API_LOGIN: &str = "idempotency_tests_login";

/// A login role that has what an operator is granted, and nothing else.
pub const OPERATOR: &str = "idempotency_tests_operator";

/// The columns of the table of keys that the planner has values of: times, states and procedures, and the ids of records, which are times.
/// All others tell users, or what belongs to them.
pub const KNOWN_TO_PLANNER: [&str; 9] = [
    "attempts",
    "completed",
    "created",
    "expires",
    "id",
    "lease_expires",
    "outcome_unknown",
    "procedure",
    "response_not_stored",
];

/// A policy that lets all users of a [`Database`] see the outbox of its organisation.
pub const OUTBOX_POLICY: &str = "idempotency_tests_outbox_policy";

/// A new database with all migrations.
#[derive(Debug)]
pub struct Database {
    inner: TestDatabase,
}

/// A user of the organisation that every database has.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The user's id.
    pub id: Uuid,
}

impl Database {
    /// Creates a database with the core and the organization migrations, one organisation and one cluster.
    pub async fn new() -> Self {
        static TEMPLATE: OnceCell<TestDatabase> = OnceCell::const_new();
        let template = TEMPLATE
            .get_or_init(|| async {
                let database = Self::empty().await;
                database.migrate().await;
                database.inner
            })
            .await;
        Self { inner: scratch_postgres::database(Some(template.name())).await }
    }

    /// The same, with a connection of the superuser.
    pub async fn with_owner() -> (Self, Client) {
        let database = Self::new().await;
        let owner = database.owner().await;
        (database, owner)
    }

    /// The same, with a [`store`](Self::store).
    pub async fn with_store() -> (Self, PostgresStore) {
        let database = Self::new().await;
        let store = database.store();
        (database, store)
    }

    /// A database [without tables](Self::empty), with a connection of the superuser.
    pub async fn empty_with_owner() -> (Self, Client) {
        let database = Self::empty().await;
        let owner = database.owner().await;
        (database, owner)
    }

    /// Creates a database without tables, on a server that has the API's role.
    pub async fn empty() -> Self {
        let database = Self { inner: scratch_postgres::database(None).await };
        database.make_role().await;
        database
    }

    /// The same tables, organisation and cluster in an empty database that exists: of a server that the test starts itself.
    pub async fn on(url: &str) -> Self {
        let database = Self::of(url);
        database.make_role().await;
        database.migrate().await;
        database
    }

    /// A database that exists, as it is.
    pub fn of(url: &str) -> Self {
        Self { inner: TestDatabase::given(url).expect("a connection string") }
    }

    async fn make_role(&self) {
        let create_role = format!(
            "DO $$ BEGIN CREATE ROLE {API_ROLE} NOLOGIN;
             EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        );
        self.owner().await.batch_execute(&create_role).await.expect("the API's role is made");
    }

    async fn migrate(&self) {
        let mut owner = self.owner().await;
        organization::migrations::run(&mut owner).await.expect("the migrations run");
        if let Ok(mutant) = std::env::var("IDEMPOTENCY_TEST_MUTANT") {
            // A migration with a guard switched off, whose functions replace those that were made.
            let sql = std::fs::read_to_string(mutant).expect("IDEMPOTENCY_TEST_MUTANT is a file");
            owner.batch_execute(&sql).await.expect("the mutant is installed");
        }
        partition(&owner, &Schema::default()).await;
        owner
            .batch_execute(&format!(
                "SELECT tenant.organization_grant('{API_ROLE}');
                 INSERT INTO tenant.organizations (id, name) VALUES ('{ORGANIZATION}', 'organization');
                 INSERT INTO tenant.clusters (id, organization_id, name, region)
                 VALUES ('{CLUSTER}', '{ORGANIZATION}', 'cluster', 'here');
                 -- The users of most tests belong to no organisation, and look at the status of its projects.
                 CREATE POLICY {OUTBOX_POLICY} ON authz.outbox FOR SELECT USING (true);"
            ))
            .await
            .expect("the organisation is made");
    }

    /// The URL, with the superuser's role.
    pub fn url(&self) -> &str {
        self.inner.url()
    }

    /// A connection of the superuser, who is exempt from row-level security.
    pub async fn owner(&self) -> Client {
        self.inner.connect().await
    }

    /// A connection of the API's role.
    pub async fn api(&self) -> Client {
        let client = self.inner.connect().await;
        client.batch_execute(&format!("SET ROLE {API_ROLE}")).await.expect("the role is taken");
        client
    }

    /// A pool of connections of the API's role.
    pub fn pool(&self, size: usize) -> Pool {
        self.pool_with(size, "")
    }

    /// A pool of connections of the API's role. Each runs `setup` first.
    pub fn pool_with(&self, size: usize, setup: &str) -> Pool {
        pool_of_api(self.url().parse().expect("an address"), size, setup)
    }

    /// A pool of connections that log in as [`API_LOGIN`], and cannot become a superuser again.
    pub async fn pool_of_login(&self, size: usize) -> Pool {
        let mut config: Config = self.url().parse().expect("an address");
        self.make_login(config.get_password()).await;
        config.user(API_LOGIN);
        pool(config, size, String::new())
    }

    /// A connection that logs in as a role with this name, which is made first. It has no rights of its own.
    pub async fn login(&self, role: &str) -> Client {
        let mut config: Config = self.url().parse().expect("an address");
        {
            // PostgreSQL fails if two connections change one role at the same time.
            static ONE: Mutex<()> = Mutex::const_new(());
            let _one = ONE.lock().await;
            make_login(&self.owner().await, role, "", config.get_password()).await;
        }
        config.user(role);
        let (client, connection) = config.connect(NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    /// A proxy in front of the server, and the URL of the database through it, with the superuser's role.
    pub async fn through_proxy(&self) -> (Proxy, String) {
        through_proxy(self.url()).await
    }

    /// A proxy in front of the server, and a pool that connects through it only.
    pub async fn pool_through_proxy(&self, size: usize) -> (Proxy, Pool) {
        let (proxy, config) = Self::proxy(self.url()).await;
        let pool = pool_of_api(config, size, "");
        (proxy, pool)
    }

    /// A proxy in front of a PgBouncer of this database, and a pool that connects through both only, as [`API_LOGIN`].
    pub async fn pool_through_proxy_and_bouncer(&self, bouncer: &PgBouncer, size: usize) -> (Proxy, Pool) {
        let (proxy, config) = Self::proxy(bouncer.url()).await;
        (proxy, pool(config, size, String::new()))
    }

    /// A proxy in front of a server, and the configuration of connections through it.
    async fn proxy(url: &str) -> (Proxy, Config) {
        let server: Config = url.parse().expect("an address");
        let (Some(Host::Tcp(host)), Some(port)) = (server.get_hosts().first(), server.get_ports().first()) else {
            panic!("the tests need a server with a TCP address");
        };
        let upstream = lookup_host((host.as_str(), *port)).await.expect("an address").next().expect("an address");
        let proxy = Proxy::start(upstream).expect("a proxy");
        let mut config = Config::new();
        config.host(proxy.address().ip().to_string()).port(proxy.address().port());
        server.get_user().map(|user| config.user(user));
        server.get_password().map(|password| config.password(password));
        server.get_dbname().map(|name| config.dbname(name));
        (proxy, config)
    }

    /// A PgBouncer in transaction mode in front of the server, for [`API_LOGIN`].
    ///
    /// # Panics
    ///
    /// PgBouncer [cannot run](PgBouncer::missing) here. Check that first, and skip the test.
    pub async fn behind_bouncer(&self, settings: &[&str]) -> PgBouncer {
        self.bouncer_of(self.url().parse().expect("an address"), settings).await
    }

    /// The same, with a proxy between PgBouncer and the server.
    ///
    /// # Panics
    ///
    /// As [`behind_bouncer`](Self::behind_bouncer).
    pub async fn behind_bouncer_and_proxy(&self, settings: &[&str]) -> (PgBouncer, Proxy) {
        let (proxy, config) = Self::proxy(self.url()).await;
        (self.bouncer_of(config, settings).await, proxy)
    }

    /// A PgBouncer in transaction mode in front of the server, and a pool that connects through it only, as
    /// [`API_LOGIN`].
    ///
    /// # Panics
    ///
    /// As [`behind_bouncer`](Self::behind_bouncer).
    pub async fn pool_through_bouncer(&self, size: usize) -> (PgBouncer, Pool) {
        let bouncer = self.behind_bouncer(&[]).await;
        let pool = pool_through(&bouncer, size);
        (bouncer, pool)
    }

    /// The same, with a proxy between PgBouncer and the server.
    ///
    /// # Panics
    ///
    /// As [`behind_bouncer`](Self::behind_bouncer).
    pub async fn pool_through_bouncer_and_proxy(&self, size: usize) -> (PgBouncer, Proxy, Pool) {
        let (bouncer, proxy) = self.behind_bouncer_and_proxy(&[]).await;
        let pool = pool_through(&bouncer, size);
        (bouncer, proxy, pool)
    }

    async fn bouncer_of(&self, mut server: Config, settings: &[&str]) -> PgBouncer {
        self.make_login(server.get_password()).await;
        server.user(API_LOGIN);
        PgBouncer::start_with(&server, settings).await.expect("a PgBouncer")
    }

    /// Creates [`API_LOGIN`] with the password of the server's own role, whose holder has all rights anyway.
    async fn make_login(&self, password: Option<&[u8]>) {
        static MADE: OnceCell<()> = OnceCell::const_new();
        let member = format!("IN ROLE {API_ROLE}");
        MADE.get_or_init(async || make_login(&self.owner().await, API_LOGIN, &member, password).await).await;
    }

    /// A store on such a pool, with timeouts that are long enough for a busy machine.
    pub fn store(&self) -> PostgresStore {
        with_max_batch(PostgresStore::new(self.pool(8), organization::resource_types()))
            .timeout(Duration::from_secs(30))
            .status_timeout(Duration::from_secs(30))
    }

    /// Creates a user of the organisation.
    pub async fn user(&self) -> User {
        let id = Uuid::new_v4();
        self.owner()
            .await
            .query_typed(
                "INSERT INTO tenant.users (id, organization_id, name) VALUES ($1, $2, 'user')",
                &[(&id, Type::UUID), (&ORGANIZATION, Type::UUID)],
            )
            .await
            .expect("the user is made");
        User { id }
    }

    /// Creates a project whose newest outbox row has this status; with `None`, a project without outbox rows.
    pub async fn project(&self, status: Option<OutboxStatus>) -> Resource {
        let owner = self.owner().await;
        let insert =
            "INSERT INTO tenant.projects (organization_id, cluster_id, name) VALUES ($1, $2, 'a') RETURNING id";
        let row = owner.query_typed(insert, &[(&ORGANIZATION, Type::UUID), (&CLUSTER, Type::UUID)]).await;
        let id: Uuid = row.expect("the project is made")[0].get(0);
        match status {
            None => {
                let delete = "DELETE FROM authz.outbox WHERE project_id = $1";
                owner.query_typed(delete, &[(&id, Type::UUID)]).await.expect("the outbox row goes");
            }
            // The trigger has inserted a `pending` row, which is older.
            Some(OutboxStatus::Pending) => {}
            Some(status) => {
                let status = match status {
                    OutboxStatus::Completed => "completed",
                    OutboxStatus::Failed => "failed",
                    OutboxStatus::Pending => "pending",
                    OutboxStatus::Retrying => "retrying",
                };
                let insert = "INSERT INTO authz.outbox (organization_id, project_id, status)
                              SELECT organization_id, id, $2 FROM tenant.projects WHERE id = $1";
                owner
                    .query_typed(insert, &[(&id, Type::UUID), (&status, Type::TEXT)])
                    .await
                    .expect("the outbox row is made");
            }
        }
        Resource { resource_type: "project".to_owned(), id: id.into() }
    }
}

/// Limits how many calls one statement of a store may do as `IDEMPOTENCY_TEST_MAX_BATCH` says; not without the variable. With
/// `IDEMPOTENCY_TEST_COMMON_PATH=off`, the functions of the migrations do everything.
///
/// # Panics
///
/// The variable is not a number.
pub fn with_max_batch<D: Driver>(store: SqlStore<D>) -> SqlStore<D> {
    let is_on = std::env::var("IDEMPOTENCY_TEST_COMMON_PATH").as_deref() != Ok("off");
    let store = store.common_path(is_on);
    match std::env::var("IDEMPOTENCY_TEST_MAX_BATCH") {
        Ok(calls) => store.max_batch(calls.parse().expect("IDEMPOTENCY_TEST_MAX_BATCH is a number")),
        Err(_) => store,
    }
}

/// Runs the core's migrations, and partitions the table as `IDEMPOTENCY_TEST_PARTITIONS` says.
///
/// # Panics
///
/// As [`partition`], or if the database refuses the migrations.
pub async fn migrate(owner: &mut Client, schema: &Schema) {
    migrations::run(owner, schema).await.expect("the migrations run");
    partition(owner, schema).await;
}

/// Makes a new table of keys one of as many partitions as `IDEMPOTENCY_TEST_PARTITIONS` says; without the variable, it has none.
///
/// # Panics
///
/// The variable is not a number, or the database refuses it.
pub async fn partition(owner: &Client, schema: &Schema) {
    if let Some(partitions) = partitions() {
        migrations::partition(owner, schema, partitions).await.expect("the table is partitioned");
    }
}

/// The number of partitions that `IDEMPOTENCY_TEST_PARTITIONS` asks for.
///
/// # Panics
///
/// The variable is not a number.
pub fn partitions() -> Option<u16> {
    let number = std::env::var("IDEMPOTENCY_TEST_PARTITIONS").ok()?;
    Some(number.parse().expect("IDEMPOTENCY_TEST_PARTITIONS is a number"))
}

/// The id of a resource whose ids are UUIDs.
pub fn uuid_of(resource: &Resource) -> Uuid {
    *resource.id.as_uuid().expect("a UUID")
}

/// Creates a login role with this password, which is that of the server's own role.
async fn make_login(owner: &Client, role: &str, options: &str, password: Option<&[u8]>) {
    let password = password.map(|password| String::from_utf8_lossy(password).replace('\'', "''"));
    let password = password.map_or("NULL".to_owned(), |password| format!("'{password}'"));
    let make = format!(
        "DO $$ BEGIN
             CREATE ROLE {role} LOGIN PASSWORD {password} {options};
         EXCEPTION WHEN duplicate_object OR unique_violation THEN
             ALTER ROLE {role} PASSWORD {password};
         END $$"
    );
    owner.batch_execute(&make).await.expect("the role is made");
}

/// The number of rows of a table, or of its partitions, that this transaction has read so far, by table or index scans, whether or not
/// they matched.
pub async fn rows_read(client: &Client, table: &str) -> i64 {
    client
        .query_typed_one(
            "SELECT sum(pg_stat_get_xact_tuples_returned(t)
                        + coalesce((SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid))
                                    FROM pg_index WHERE indrelid = t), 0))::int8
             FROM (SELECT $1::text::regclass UNION SELECT inhrelid FROM pg_inherits WHERE inhparent = $1::text::regclass) r (t)",
            &[(&table, Type::TEXT)],
        )
        .await
        .expect("the statistics")
        .get(0)
}

fn pool_of_api(config: Config, size: usize, setup: &str) -> Pool {
    pool(config, size, format!("SET ROLE {API_ROLE}; {setup}"))
}

/// A pool of connections through PgBouncer.
fn pool_through(bouncer: &PgBouncer, size: usize) -> Pool {
    pool(bouncer.url().parse().expect("an address"), size, String::new())
}

/// A pool of connections that run `setup` first.
pub fn pool(config: Config, size: usize, setup: String) -> Pool {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config, NoTls, recycling))
        .max_size(size)
        .post_create(Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let setup = setup.clone();
            Box::pin(async move { client.batch_execute(&setup).await.map_err(HookError::Backend) })
        }))
        .build()
        .expect("a pool")
}

/// The id of the organisation, and of its cluster.
const ORGANIZATION: Uuid = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001);
const CLUSTER: Uuid = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0002);

/// A proxy in front of a server, and the URL of its database through it.
///
/// # Panics
///
/// The URL has no user, TCP address or name of a database.
pub async fn through_proxy(url: &str) -> (Proxy, String) {
    let (proxy, _) = Database::proxy(url).await;
    let (user, rest) = url.rsplit_once('@').expect("a user");
    let (_, name) = rest.split_once('/').expect("the name of a database");
    let url = format!("{user}@{}/{name}", proxy.address());
    (proxy, url)
}
