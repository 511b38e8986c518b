//! [`PostgresStore`] behind PgBouncer in transaction mode: the conformance suite, and the isolation of clients that
//! share a server connection.

use crate::{prelude::*, prepared::every_operation};

/// More clients than there are server connections.
const CLIENTS: usize = 4 * PgBouncer::SERVER_CONNECTIONS;

struct Bouncer;

impl Harness for Bouncer {
    type Store = PostgresStore;
    type Fixture = (Database, Option<PgBouncer>);

    async fn store(&self) -> (PostgresStore, Self::Fixture) {
        match behind_bouncer().await {
            Some((database, bouncer, pool)) => (patient(pool.clone()), (database, Some(bouncer))),
            // The skip is reported. A case of the suite cannot be left out, so it runs without PgBouncer.
            None => {
                let database = Database::new().await;
                (database.store(), (database, None))
            }
        }
    }

    async fn resource(
        &self,
        _: &PostgresStore,
        (database, _): &Self::Fixture,
        status: Option<OutboxStatus>,
    ) -> Resource {
        database.project(status).await
    }
}

conformance_tests!(Bouncer);

/// A database and a pool that reaches it through a PgBouncer; `None` if PgBouncer is missing.
async fn behind_bouncer() -> Option<(Database, PgBouncer, Pool)> {
    if let Some(why) = PgBouncer::missing() {
        skip("pgbouncer", why);
        return None;
    }
    let database = Database::new().await;
    let (bouncer, pool) = database.pool_through_bouncer(CLIENTS).await;
    Some((database, bouncer, pool))
}

/// A server connection as its next client finds it.
#[derive(Debug)]
struct Found {
    backend: i32,
    /// Leftovers of earlier clients, as text; empty if there are none.
    left: String,
}

/// The rows of a query at each server connection, by as many transactions at once.
pub(crate) async fn at_every_server_connection(pool: &Pool, query: &str) -> Vec<Row> {
    let mut clients = Vec::new();
    for _ in 0..PgBouncer::SERVER_CONNECTIONS {
        let client = pool.get().await.expect("a connection");
        client.batch_execute("BEGIN").await.expect("a transaction");
        clients.push(client);
    }
    let mut rows = Vec::new();
    for client in &clients {
        rows.extend(client.query_typed(query, &[]).await.expect("the rows"));
        client.batch_execute("COMMIT").await.expect("its end");
    }
    rows
}

/// The state that is left at each server connection.
async fn server_connections(pool: &Pool) -> Vec<Found> {
    // The statements of PgBouncer are each client's own.
    let look = format!("SELECT pg_backend_pid(), {}", left("name !~ '^PGBOUNCER_'"));
    let rows = at_every_server_connection(pool, &look).await;
    let found: Vec<_> = rows.iter().map(|row| Found { backend: row.get(0), left: row.get(1) }).collect();
    let backends: HashSet<i32> = found.iter().map(|found| found.backend).collect();
    assert_eq!(backends.len(), PgBouncer::SERVER_CONNECTIONS, "{found:?}");
    found
}

/// Tells, in SQL, what is left on a connection of those that have used it before: statements only that fulfil this condition.
pub(crate) fn left(prepared: &str) -> String {
    format!(
        "concat_ws('; ',
             'owner ' || nullif(current_setting('idempotency.owner', true), ''),
             'user ' || nullif(current_setting('app.current_user_id', true), ''),
             'tenant ' || nullif(current_setting('app.tenant_id', true), ''),
             'sight ' || nullif(current_setting('app.idempotency_sight', true), ''),
             'search_path ' || nullif(current_setting('search_path'), '\"$user\", public'),
             'lock_timeout ' || nullif(current_setting('lock_timeout'), '0'),
             'prepared ' || (SELECT string_agg(statement, ', ') FROM pg_prepared_statements WHERE {prepared}),
             'rows ' || (SELECT nullif(count(*), 0) FROM tenant.idempotency_keys),
             'locks ' || (SELECT nullif(count(*), 0) FROM pg_locks
                          WHERE pid = pg_backend_pid() AND locktype = 'advisory'))"
    )
}

async fn assert_nothing_left(pool: &Pool) {
    for found in server_connections(pool).await {
        assert_eq!(found.left, "", "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_operation_leaves_anything_on_a_server_connection() {
    let Some((database, _bouncer, pool)) = behind_bouncer().await else { return };
    let project = database.project(Some(OutboxStatus::Completed)).await;
    for _ in 0..4 {
        let mut users = JoinSet::new();
        for _ in 0..CLIENTS {
            let (store, project) = (patient(pool.clone()), project.clone());
            users.spawn(async move { every_operation(&store, &project, |_| {}).await });
        }
        users.join_all().await;
        assert_nothing_left(&pool).await;
    }
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = $1::text";
    let backends: i64 = database.owner().await.query_one(sql, &[&API_LOGIN]).await.expect("the count").get(0);
    assert_eq!(usize::try_from(backends), Ok(PgBouncer::SERVER_CONNECTIONS));
}

/// Shows that the other tests would notice a leftover: the Go interceptor sets the user for the session.
#[tokio::test]
async fn a_user_set_for_a_session_is_left_for_the_next_client() {
    let Some((_database, _bouncer, pool)) = behind_bouncer().await else { return };
    let alice = Uuid::new_v4().to_string();
    let client = pool.get().await.expect("a connection");
    let sql = "SELECT set_config('app.current_user_id', $1, false)";
    client.query_typed(sql, &[(&alice, Type::TEXT)]).await.expect("the user is set");
    drop(client);

    let found = server_connections(&pool).await;
    assert!(found.iter().any(|found| found.left == format!("user {alice}")), "{found:?}");
}

#[tokio::test]
async fn a_client_that_gives_up_on_a_statement_leaves_nothing() {
    let Some((database, _bouncer, pool)) = behind_bouncer().await else { return };
    let (patient, hasty) = (patient(pool.clone()), patient(pool.clone()).timeout(Duration::from_millis(300)));
    complete(&patient, &new_claim(), &completion("warm")).await;
    let mut owner = database.owner().await;
    let lock = owner.transaction().await.expect("a transaction");
    lock.batch_execute("LOCK TABLE tenant.idempotency_keys IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    let first = new_claim();

    // Until no server connection is left.
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tenant.idempotency_keys'::regclass";
    until("all wait", async || {
        hasty.claim(&first).await.expect_err("a locked table");
        let waiting: i64 = value(lock.client(), waiting).await;
        usize::try_from(waiting).is_ok_and(|waiting| waiting == PgBouncer::SERVER_CONNECTIONS)
    })
    .await;
    lock.rollback().await.expect("the lock is gone");

    acquire(&patient, &first).await;
    assert_nothing_left(&pool).await;
}

/// Servers that start together. Behind PgBouncer none of them can hold a lock beyond a transaction.
#[tokio::test]
async fn migrations_run_concurrently() {
    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    let database = Database::empty().await;
    let bouncer = PgBouncer::start(&database.url().parse().expect("an address")).await.expect("a PgBouncer");
    let mut servers = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut client, connection) = tokio_postgres::connect(bouncer.url(), NoTls).await.expect("a connection");
        tokio::spawn(connection);
        servers.spawn(async move {
            organization::migrations::run(&mut client).await.expect("the migrations run");
        });
    }
    servers.join_all().await;
    let owner = database.owner().await;
    let left = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(value::<i64>(&owner, left).await, 0);
}

/// If a client leaves between two answers, PgBouncer before version 1.21 gives its server to another client, which then gets the
/// second answer.
#[tokio::test]
async fn an_operation_that_is_cut_off_leaves_no_answer_to_another() {
    let Some((database, bouncer, pool)) = behind_bouncer().await else { return };
    let (proxy, cut) = database.pool_through_proxy_and_bouncer(&bouncer, 4).await;
    let (store, cut) = (patient(pool.clone()), patient(cut).status_timeout(Duration::from_millis(10)));
    let records = ["one", "other"].map(|message| (new_claim(), message));
    for (claim, message) in &records {
        complete(&store, claim, &completion(message)).await;
    }
    let [(given_up, _), (asked, expected)] = &records;
    let (owner, blocker) = (database.owner().await, database.owner().await);
    for _ in 0..3 {
        blocker.batch_execute("BEGIN; LOCK TABLE tenant.idempotency_keys").await.expect("the lock");
        let (cut, given_up) = (cut.clone(), again(given_up));
        let given_up = tokio::spawn(async move { cut.claim(&given_up).await });
        until("a second attempt is made", async || waiting(&owner).await == 2).await;
        given_up.abort();
        proxy.cut_connections();
        let mut others = JoinSet::new();
        for _ in 0..PgBouncer::SERVER_CONNECTIONS {
            let (store, claim) = (store.clone(), again(asked));
            others.spawn(async move { store.claim(&claim).await.expect("the store answers") });
        }
        let in_use = || pool.status().size - pool.status().available;
        until("the others have asked", async || in_use() >= PgBouncer::SERVER_CONNECTIONS).await;
        blocker.batch_execute("ROLLBACK").await.expect("the lock is gone");
        for outcome in others.join_all().await {
            assert_eq!(
                replayed(outcome).response,
                StoredResponse::message(*expected),
                "the answer to another operation"
            );
        }
    }
}
