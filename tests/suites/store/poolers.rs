//! [`PostgresStore`] finds out whether connections keep prepared statements.

use std::pin::Pin;

use deadpool_postgres::{Connect, ManagerConfig, RecyclingMethod};
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use crate::prelude::*;
use crate::{bouncer::at_every_server_connection, prepared::every_operation};

/// The log line of a store that gives prepared statements up.
const GIVEN_UP: &str = "a pooler does not keep prepared statements";

/// A PgBouncer that tracks prepared statements, or one that does not; `None` if there is none here.
async fn bouncer(database: &Database, tracks: bool) -> Option<PgBouncer> {
    if let Some(why) = PgBouncer::missing() {
        skip("pgbouncer", why);
        return None;
    }
    let settings: &[&str] = match (tracks, PgBouncer::tracks_prepared_statements()) {
        (true, true) => &["max_prepared_statements = 100"],
        (true, false) => {
            skip("tracking-pgbouncer", "this PgBouncer is older than version 1.21");
            return None;
        }
        (false, true) => &["max_prepared_statements = 0"],
        (false, false) => &[],
    };
    Some(database.behind_bouncer(settings).await)
}

fn pool(url: &str, size: usize) -> Pool {
    tonic_idempotency_tests::pool(url.parse().expect("an address"), size, String::new())
}

/// The names of the store's statements that a connection finds on its server.
async fn found(pool: &Pool) -> Vec<String> {
    let select = "SELECT name FROM pg_prepared_statements WHERE statement ~ 'idempotency' ORDER BY prepare_time";
    let connection = pool.get().await.expect("a connection");
    let rows = connection.query_typed(select, &[]).await.expect("the statements");
    rows.iter().map(|row| row.get(0)).collect()
}

/// The same of all server connections of a PgBouncer.
async fn found_behind(pool: &Pool) -> Vec<String> {
    let select = "SELECT name FROM pg_prepared_statements WHERE statement ~ 'idempotency'";
    at_every_server_connection(pool, select).await.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn statements_are_prepared_once_on_a_connection_of_the_server_if_that_is_wanted() {
    let database = Database::new().await;
    let resource = database.project(None).await;
    let as_login = database.pool_of_login(1).await;
    for pool in [database.pool(1), as_login] {
        let (lines, _guard) = Lines::collect(LevelFilter::INFO);
        let store = patient(pool.clone());
        every_operation(&store.clone().prepared_statements(PreparedStatements::Never), &resource, |_| {}).await;
        assert_eq!(found(&pool).await, [""; 0]);
        every_operation(&store, &resource, |_| {}).await;
        let prepared = found(&pool).await;
        assert!(prepared.len() >= 7, "{prepared:?}");
        every_operation(&store.clone(), &resource, |_| {}).await;
        assert_eq!((found(&pool).await, lines.count(GIVEN_UP)), (prepared, 0));
    }
}

/// Runs operations of several clients at once.
async fn many_operations(store: &PostgresStore, resource: &Resource) {
    let mut clients = JoinSet::new();
    for _ in 0..2 * PgBouncer::SERVER_CONNECTIONS {
        let (store, resource) = (store.clone(), resource.clone());
        clients.spawn(async move { every_operation(&store, &resource, |_| {}).await });
    }
    clients.join_all().await;
}

#[tokio::test]
async fn nothing_is_prepared_behind_a_pooler_that_does_not_track() {
    let database = Database::new().await;
    let Some(bouncer) = bouncer(&database, false).await else { return };
    let (pool, resource) = (pool(bouncer.url(), 16), database.project(None).await);
    let (lines, _guard) = Lines::collect(LevelFilter::INFO);
    let store = patient(pool.clone());
    many_operations(&store, &resource).await;
    assert_eq!(found_behind(&pool).await, [""; 0]);
    many_operations(&store, &resource).await;
    assert_eq!((found_behind(&pool).await, lines.count(GIVEN_UP)), (Vec::new(), 1));
}

/// It may have a transaction open, and the probe prepared.
#[tokio::test]
async fn a_connection_whose_caller_goes_away_while_it_is_probed_is_closed() {
    let database = Database::new().await;
    let Some(bouncer) = bouncer(&database, false).await else { return };
    let (proxy, pool) = database.pool_through_proxy_and_bouncer(&bouncer, 1).await;
    let store = patient(pool.clone());
    drop(pool.get().await.expect("a connection"));
    // The probe takes at least two answers more after it was seen: seconds, so that a busy machine sees it in time.
    proxy.delay_answers(Duration::from_secs(2));
    let claiming = tokio::spawn(async move { acquire(&store, &new_claim()).await });
    let owner = database.owner().await;
    let probing = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND query IN ('BEGIN', 'SELECT 1 AS idempotency_probe')";
    let is_probing = async || value::<i64>(&owner, probing).await == 1;
    until("the probe has begun", is_probing).await;
    claiming.abort();
    proxy.delay_answers(Duration::ZERO);
    until("the connection is closed", async || pool.status().size == 0).await;
}

/// The name of the first statement is taken on the server, by another process.
#[tokio::test]
async fn another_clients_statement_is_neither_executed_nor_deallocated() {
    let database = Database::new().await;
    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    let mut settings = vec!["default_pool_size = 1"];
    settings.extend(PgBouncer::tracks_prepared_statements().then_some("max_prepared_statements = 0"));
    let bouncer = database.behind_bouncer(&settings).await;
    let pool = pool(bouncer.url(), 1);
    let connection = pool.get().await.expect("a connection");
    // tokio-postgres numbers the statements of a process. These are the next.
    let one = connection.prepare("SELECT name FROM pg_prepared_statements").await.expect("a statement");
    let name: String = connection.query_one(&one, &[]).await.expect("its name").get(0);
    let last: usize = name.strip_prefix('s').and_then(|number| number.parse().ok()).expect("a number");
    let foreign: String = (last + 1..=last + 1_999).map(|number| format!("PREPARE s{number} AS SELECT 1;")).collect();
    connection.batch_execute(&foreign).await.expect("statements");
    drop(connection);
    let resource = database.project(None).await;
    let (lines, _guard) = Lines::collect(LevelFilter::INFO);
    every_operation(&patient(pool.clone()), &resource, |_| {}).await;
    assert_eq!(lines.count(GIVEN_UP), 1);
    let connection = pool.get().await.expect("a connection");
    let count = "SELECT count(*) FROM pg_prepared_statements";
    assert_eq!(value::<i64>(&connection, count).await, 2_000);
    drop(one);
}

#[tokio::test]
async fn statements_are_prepared_behind_a_pooler_that_tracks() {
    let database = Database::new().await;
    let Some(bouncer) = bouncer(&database, true).await else { return };
    let (pool, resource) = (pool(bouncer.url(), 16), database.project(None).await);
    let (lines, _guard) = Lines::collect(LevelFilter::INFO);
    let store = patient(pool.clone());
    many_operations(&store, &resource).await;
    many_operations(&store, &resource).await;
    let prepared = found_behind(&pool).await;
    assert!(prepared.len() >= 7 && prepared.iter().all(|name| name.starts_with("PGBOUNCER_")), "{prepared:?}");
    assert_eq!(lines.count(GIVEN_UP), 0);
}

#[tokio::test]
async fn statements_are_given_up_if_a_pooler_tracks_no_longer() {
    let database = Database::new().await;
    let Some(bouncer) = bouncer(&database, true).await else { return };
    let (pool, resource) = (pool(bouncer.url(), 1), database.project(None).await);
    let (lines, _guard) = Lines::collect(LevelFilter::INFO);
    let store = patient(pool.clone());
    every_operation(&store, &resource, |_| {}).await;
    let mut console: Config = bouncer.url().parse().expect("an address");
    let (console, connection) = console.dbname("pgbouncer").connect(NoTls).await.expect("the console");
    tokio::spawn(connection);
    console.simple_query("SET max_prepared_statements = 0").await.expect("it tracks no longer");
    every_operation(&store, &resource, |_| {}).await;
    assert_eq!(lines.count(GIVEN_UP), 1);
}

/// Connects to one address, or to another.
struct Switch {
    addresses: [Config; 2],
    is_second: Arc<AtomicBool>,
}

impl Connect for Switch {
    fn connect(
        &self,
        _: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        let config = self.addresses[usize::from(self.is_second.load(Ordering::Relaxed))].clone();
        Box::pin(async move {
            let (client, connection) = config.connect(NoTls).await?;
            Ok((client, tokio::spawn(async move { drop(connection.await) })))
        })
    }
}

/// The number of requests to cancel that a store sends whose statements are not answered: looks for records, as nothing that writes is
/// cancelled.
async fn cancellations_of_silent_statements(proxy: &Proxy, pool: Pool) -> usize {
    let store = PostgresStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(2));
    let claims: Vec<_> = (0..8).map(|_| new_claim()).collect();
    // Each connection is known.
    let alone = store.clone().max_batch(1);
    let done = completion("done");
    join_all(claims.iter().map(|claim| complete(&alone, claim, &done))).await;
    // From now on, retries are expected.
    let first: Vec<_> = claims.iter().map(again).collect();
    join_all(first.iter().map(async |claim| store.claim(claim).await.expect("a replay"))).await;
    proxy.delay_answers(Duration::from_secs(3));
    let again: Vec<_> = claims.iter().map(again).collect();
    join_all(again.iter().map(async |claim| store.claim(claim).await.expect_err("no answer in time"))).await;
    proxy.cancellations()
}

/// Such a pooler would drop the request, because its client hangs up, or even end.
#[tokio::test]
async fn nothing_is_cancelled_behind_a_pooler_that_does_not_track() {
    let database = Database::new().await;
    let Some(bouncer) = bouncer(&database, false).await else { return };
    let (proxy, pool) = database.pool_through_proxy_and_bouncer(&bouncer, 8).await;
    assert_eq!(cancellations_of_silent_statements(&proxy, pool).await, 0);
    let (proxy, pool) = database.pool_through_proxy(8).await;
    assert_ne!(cancellations_of_silent_statements(&proxy, pool).await, 0);
}

/// As after a change in the DNS.
#[tokio::test]
async fn statements_are_given_up_if_a_later_connection_leads_through_a_pooler() {
    let database = Database::new().await;
    let Some(bouncer) = bouncer(&database, false).await else { return };
    let through: Config = bouncer.url().parse().expect("an address");
    let mut direct: Config = database.url().parse().expect("an address");
    through.get_user().map(|user| direct.user(user));
    let is_second = Arc::new(AtomicBool::new(false));
    let switch = Switch { addresses: [direct, through], is_second: Arc::clone(&is_second) };
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let pool = Pool::builder(Manager::from_connect(Config::new(), switch, recycling)).max_size(8).build();
    let pool = pool.expect("a pool");
    let (lines, _guard) = Lines::collect(LevelFilter::INFO);
    let store = patient(pool.clone());
    acquire(&store, &new_claim()).await;
    assert_ne!(found(&pool).await, [""; 0]);

    is_second.store(true, Ordering::Relaxed);
    pool.retain(|_, _| false);
    let resource = database.project(None).await;
    many_operations(&store, &resource).await;
    assert_eq!((found_behind(&pool).await, lines.count(GIVEN_UP)), (Vec::new(), 1));
}

/// The server is asked which statements still run as the login, and not as the role that its sessions have: only for a transaction, as the
/// pooler gives the session to others after it.
#[tokio::test]
async fn a_question_about_statements_that_were_given_up_leaves_no_role_behind() {
    let database = Database::new().await;
    let Some(bouncer) = bouncer(&database, false).await else { return };
    let owner = database.owner().await;
    let name: String = value(&owner, "SELECT current_database()::text").await;
    let role = format!("ALTER ROLE {API_LOGIN} IN DATABASE {name} SET role = '{API_ROLE}'");
    owner.batch_execute(&role).await.expect("each session begins as the role");
    let earlier = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{API_LOGIN}' AND datname = current_database()"
    );
    owner.batch_execute(&earlier).await.expect("those that have not are ended");
    let (proxy, through) = database.pool_through_proxy_and_bouncer(&bouncer, 2).await;
    let store = PostgresStore::new(through.clone(), organization::resource_types()).timeout(Duration::from_secs(2));
    acquire(&store, &new_claim()).await;
    proxy.silence_connections();
    // Its connection is kept until the server says that nothing runs.
    let before = through.status().size;
    acquire(&store, &new_claim()).await;
    until("the silent connection is closed", async || through.status().size <= before).await;
    let others = pool(bouncer.url(), PgBouncer::SERVER_CONNECTIONS);
    let roles = at_every_server_connection(&others, "SELECT current_user::text").await;
    let roles: Vec<String> = roles.iter().map(|row| row.get(0)).collect();
    assert!(!roles.is_empty() && roles.iter().all(|role| role == API_ROLE), "{roles:?}");
}
