//! Servers under Patroni.

use std::time::{Duration, Instant};

use scratch_postgres::{Patroni, Replication, skip};

use crate::traces::{ask, execute, output};

/// The time that a failover may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn another_server_becomes_the_primary_and_nothing_is_left_after_a_drop() {
    if let Some(why) = Patroni::missing() {
        return skip("patroni", why);
    }
    let patroni = Patroni::start(Replication::Synchronous).await.expect("it starts");
    let front = patroni.url_of(&[patroni.front()]);
    execute(&front, "CREATE TABLE seen AS SELECT 1 AS n").await;
    let directory = ask(&front, "SHOW data_directory").await;
    let (directory, _) = directory.rsplit_once('/').expect("its directory");
    let first = patroni.primary().await.expect("a primary");

    patroni.kill(first).await.expect("it is killed");
    until("a standby is promoted", async || is_replaced(&patroni, first).await).await;
    patroni.start_again(first).await.expect("it is started");
    until("the servers are all there again", async || patroni.is_whole().await).await;

    assert_eq!(ask(&patroni.url_of(&patroni.addresses()), "SELECT sum(n)::text FROM seen").await, "1");
    assert_eq!(patroni.ended(), None);

    drop(patroni);

    assert!(!std::path::Path::new(directory).exists());
    assert!(!output("ps", &["-A", "-ww", "-o", "args="]).contains(directory));
}

#[tokio::test]
async fn what_stalled_standbys_have_not_received_is_lost_with_asynchronous_replication() {
    if let Some(why) = Patroni::missing() {
        return skip("patroni", why);
    }
    let patroni = Patroni::start(Replication::Asynchronous).await.expect("it starts");
    let front = patroni.url_of(&[patroni.front()]);
    execute(&front, "CREATE TABLE seen (n int)").await;
    until("the standbys follow", async || patroni.is_whole().await).await;
    let first = patroni.primary().await.expect("a primary");

    patroni.stall().await.expect("standbys");
    execute(&front, "INSERT INTO seen VALUES (1)").await;
    patroni.kill(first).await.expect("it is killed");
    patroni.lose().await.expect("stalled standbys");
    until("a standby is promoted", async || is_replaced(&patroni, first).await).await;
    patroni.start_again(first).await.expect("it is started");
    until("the servers are all there again", async || patroni.is_whole().await).await;

    assert_eq!(ask(&patroni.url_of(&patroni.addresses()), "SELECT count(*)::text FROM seen").await, "0");
}

async fn is_replaced(patroni: &Patroni, former: usize) -> bool {
    patroni.primary().await.is_some_and(|primary| primary != former)
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
