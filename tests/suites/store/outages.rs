//! A database that is unreachable, slow, or back again.

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_postgres::config::Host;

use crate::prelude::*;

#[tokio::test]
async fn reports_that_nothing_was_done_if_there_is_no_connection() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    proxy.cut();
    let store = PostgresStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(1));
    let error = store.claim(&new_claim()).await.expect_err("no connection");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Unreachable, false));
}

/// As while the server restarts: nothing says that it cannot be asked a moment later.
#[tokio::test]
async fn makes_a_connection_again_that_broke_while_it_was_made() {
    let database = Database::new().await;
    let mut config: Config = database.url().parse().expect("an address");
    let (Some(Host::Tcp(host)), Some(port)) = (config.get_hosts().first(), config.get_ports().first()) else {
        panic!("the tests need a server with a TCP address");
    };
    let (upstream, listener) = ((host.clone(), *port), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let address = listener.local_addr().expect("an address");
    let broken = tokio::spawn(async move {
        for _ in 0..3 {
            drop(listener.accept().await.expect("a connection"));
        }
        let (mut client, _) = listener.accept().await.expect("a connection");
        let mut server = TcpStream::connect(upstream).await.expect("the server");
        // Ends with the pool.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    });
    config = {
        let mut near = Config::new();
        near.host(address.ip().to_string()).port(address.port());
        config.get_user().map(|user| near.user(user));
        config.get_password().map(|password| near.password(password));
        config.get_dbname().map(|name| near.dbname(name));
        near
    };
    let pool = Pool::builder(Manager::new(config, NoTls)).max_size(1).build().expect("a pool");
    acquire(&patient(pool), &new_claim()).await;
    broken.await.expect("no panic");
}

#[tokio::test]
async fn uses_a_new_connection_if_the_old_ones_are_gone() {
    let (database, store) = Database::with_store().await;
    let first = new_claim();
    acquire(&store, &first).await;
    let owner = database.owner().await;
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()";
    owner.batch_execute(sql).await.expect("all connections end");
    record(&store, &first, "done").await;
}

#[tokio::test]
async fn works_again_once_the_database_is_back() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = patient(pool);
    let first = new_claim();
    acquire(&store, &first).await;
    proxy.cut();
    store.clone().timeout(Duration::from_secs(1)).claim(&again(&first)).await.expect_err("no connection");
    proxy.mend();
    assert_in_flight(&store, &first).await;
}

#[tokio::test]
async fn reports_an_unknown_state_as_corrupt() {
    let (database, owner) = Database::with_owner().await;
    let sql = "DO $$ BEGIN
                 EXECUTE replace(
                     pg_get_functiondef('tenant.idempotency_claim_row'::regproc), '''acquired''', '''conquered''');
             END $$";
    owner.batch_execute(sql).await.expect("another version of the function");
    let error = database.store().claim(&new_claim()).await.expect_err("an unknown state");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
}

/// A claim, a completion, a replay with its status: one round trip each, if nothing is prepared.
#[tokio::test]
async fn takes_one_round_trip_for_each_operation() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let store = patient(pool.clone()).prepared_statements(PreparedStatements::Never);
    let resource = database.project(None).await;
    // It asks for the server's clock, once.
    acquire(&store, &new_claim()).await;
    let first = new_claim();
    let other = new_claim();

    let mut before = proxy.round_trips();
    let mut trips = || {
        let now = proxy.round_trips();
        now - std::mem::replace(&mut before, now)
    };
    acquire(&store, &first).await;
    assert_eq!(trips(), 1, "claim");
    let completion = tonic_idempotency::store::Completion { resource: Some(resource), ..completion("done") };
    store.complete(&first.reservation, &completion).await.expect("the store answers");
    assert_eq!(trips(), 1, "complete");
    store.claim(&again(&first)).await.expect("the store answers");
    assert_eq!(trips(), 1, "replay");
    acquire(&store, &other).await;
    store.release(&other.reservation).await.expect("the store answers");
    assert_eq!(trips(), 2, "claim and release");
}
