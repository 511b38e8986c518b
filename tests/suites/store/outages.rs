//! A database that is being started, or answers what no version of it says.

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_postgres::config::Host;

use crate::prelude::*;

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
async fn reports_an_unknown_state_as_corrupt() {
    let (database, owner) = Database::with_owner().await;
    let sql = "DO $$ BEGIN
                 EXECUTE replace(
                     pg_get_functiondef('tenant.idempotency_claim_row'::regproc), '''acquired''', '''conquered''');
             END $$";
    execute(&owner, sql).await;
    let error = database.store().claim(&new_claim()).await.expect_err("an unknown state");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
}
