//! Pools of connections, the stores on them, and what is left on their connections.

use std::time::Duration;

use protobuf_canonical::RequestHash;
use scratch_postgres::{PgBouncer, skip};
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{
        CallSession, Claim, Reservation, SqlStore,
        driver::{Connection as _, ConnectionPool, Row as _, Statement, Value},
    },
};
use tonic_idempotency_tests::{API_ROLE, Database, Proxy, until, with_max_batch};
use uuid::Uuid;

use crate::{CREATE_PROJECT, PoolOptions, Stack};

/// A connection of a driver.
pub type PoolConnection<S> = <<S as Stack>::Driver as ConnectionPool>::Connection;

/// A pool of connections of the API's role.
pub fn pool<S: Stack>(database: &Database, size: usize) -> S::Pool {
    pool_with::<S>(database, size, "")
}

/// A pool of connections of the API's role. Each runs `setup` first.
pub fn pool_with<S: Stack>(database: &Database, size: usize, setup: &str) -> S::Pool {
    pool_at::<S>(database.url().to_owned(), size, setup)
}

/// The same, with a pool that does not ask whether an idle connection lives. sqlx closes the connection if the caller leaves meanwhile.
pub fn unchecked_pool_with<S: Stack>(database: &Database, size: usize, setup: &str) -> S::Pool {
    let url = database.url().to_owned();
    S::pool(PoolOptions { url, max_connections: size, setup: as_api(setup), is_pooled: false, is_checked: false })
}

/// A proxy in front of the server, and a pool that connects through it only.
pub async fn pool_through_proxy<S: Stack>(database: &Database, size: usize) -> (Proxy, S::Pool) {
    let (proxy, url) = database.through_proxy().await;
    (proxy, pool_at::<S>(url, size, ""))
}

/// A pool of connections of the API's role, for a superuser's URL.
pub fn pool_at<S: Stack>(url: String, size: usize, setup: &str) -> S::Pool {
    S::pool(PoolOptions { url, max_connections: size, setup: as_api(setup), is_pooled: false, is_checked: true })
}

fn as_api(setup: &str) -> String {
    format!("SET ROLE {API_ROLE}; {setup}")
}

/// A pool of connections through PgBouncer in transaction mode.
pub fn pool_through<S: Stack>(bouncer: &PgBouncer, size: usize) -> S::Pool {
    let url = bouncer.url().to_owned();
    S::pool(PoolOptions { url, max_connections: size, setup: String::new(), is_pooled: true, is_checked: true })
}

/// A database and a PgBouncer in front of it; `None` if there is [none](bouncer_settings).
pub async fn behind_bouncer<S: Stack>() -> Option<(Database, PgBouncer)> {
    let settings = bouncer_settings::<S>()?;
    let database = Database::new().await;
    let bouncer = database.behind_bouncer(settings).await;
    Some((database, bouncer))
}

/// The further settings of a PgBouncer; `None` if it is missing, or does not do what the library needs.
pub fn bouncer_settings<S: Stack>() -> Option<&'static [&'static str]> {
    if let Some(why) = PgBouncer::missing() {
        skip("pgbouncer", why);
        return None;
    }
    match (S::NEEDS_TRACKING, PgBouncer::tracks_prepared_statements()) {
        (false, _) => Some(&[]),
        (true, true) => Some(&["max_prepared_statements = 100"]),
        (true, false) => {
            skip("tracking-pgbouncer", "this PgBouncer is older than version 1.21");
            None
        }
    }
}

/// A store on this pool.
pub fn store<S: Stack>(pool: S::Pool) -> SqlStore<S::Driver> {
    with_max_batch(SqlStore::new(pool, organization::resource_types()))
}

/// A store on this pool, with timeouts that are long enough for a busy machine.
pub fn patient<S: Stack>(pool: S::Pool) -> SqlStore<S::Driver> {
    store::<S>(pool).timeout(Duration::from_secs(60)).status_timeout(Duration::from_secs(60))
}

/// A claim of this user.
pub fn claim(user: Uuid, key: Uuid) -> Claim {
    Claim {
        reservation: Reservation::new(OwnerId::new(user), KeyId::new(key)),
        session: CallSession { user: Some(user), settings: None },
        procedure: CREATE_PROJECT.to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: Duration::from_secs(60),
        retention: Duration::from_secs(60),
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}

/// A claim of a new user with a new key.
pub fn new_claim() -> Claim {
    claim(Uuid::new_v4(), Uuid::new_v4())
}

/// How many connections are in use.
pub fn in_use<S: Stack>(pool: &S::Pool) -> usize {
    let connections = S::connections(pool);
    connections.open.saturating_sub(connections.idle)
}

/// Waits until no connection is in use: some pools take one back in a task.
pub async fn all_are_back<S: Stack>(pool: &S::Pool) {
    until("the connections are back", async || in_use::<S>(pool) == 0).await;
}

/// Takes this number of connections out of a pool.
pub async fn take<S: Stack>(pool: &S::Pool, count: usize) -> Vec<PoolConnection<S>> {
    let driver: S::Driver = pool.clone().into();
    let mut connections = Vec::new();
    for _ in 0..count {
        connections.push(driver.acquire().await.expect("a connection"));
    }
    connections
}

/// Opens this number of connections, which are idle then.
pub async fn fill<S: Stack>(pool: &S::Pool, count: usize) {
    drop(take::<S>(pool, count).await);
    all_are_back::<S>(pool).await;
}

/// Executes statements on a connection of the pool, which returns as it is.
pub async fn execute_on_one<S: Stack>(pool: &S::Pool, sql: &str) {
    for mut connection in take::<S>(pool, 1).await {
        // It may fail: also a transaction that has failed can be left on a connection.
        let _ = connection.execute(sql).await;
    }
    all_are_back::<S>(pool).await;
}

/// Asserts that the pool's connections are clean: no transaction, user, owner, timeout or lock.
pub async fn assert_clean<S: Stack>(pool: &S::Pool) {
    all_are_back::<S>(pool).await;
    let mut connections = take::<S>(pool, S::connections(pool).open).await;
    for connection in &mut connections {
        // Two statements; in an open transaction they would have the same time.
        let times = [
            text::<S>(connection, "SELECT now()::text AS text").await,
            text::<S>(connection, "SELECT now()::text AS text").await,
        ];
        assert_ne!(times[0], times[1], "a transaction is open");
        let look = "SELECT concat(current_setting('app.current_user_id', true), current_setting('idempotency.owner', true),
                                  nullif(current_setting('idle_in_transaction_session_timeout'), '0'),
                                  (SELECT nullif(count(*), 0) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')) AS text";
        assert_eq!(text::<S>(connection, look).await, "");
    }
    drop(connections);
    all_are_back::<S>(pool).await;
}

/// Returns the column `text` of a query's only row.
pub async fn text<S: Stack>(connection: &mut PoolConnection<S>, sql: &str) -> String {
    let rows = connection.query(Statement { sql, parameters: &[] }).await.expect("a row");
    match rows[0].value("text").expect("the column") {
        Value::Text(Some(text)) => text.to_owned(),
        other => panic!("not a text but {other:?}"),
    }
}
