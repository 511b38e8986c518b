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
    let begun = Instant::now();
    while patroni.primary().await.is_none_or(|primary| primary == first) {
        assert!(begun.elapsed() < PATIENCE, "no standby was promoted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    patroni.start_again(first).await.expect("it is started");
    while !patroni.is_whole().await {
        assert!(begun.elapsed() < PATIENCE, "the servers are not all there again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    assert_eq!(ask(&patroni.url_of(&patroni.addresses()), "SELECT sum(n)::text FROM seen").await, "1");
    assert_eq!(patroni.ended(), None);

    drop(patroni);

    assert!(!std::path::Path::new(directory).exists());
    assert!(!output("ps", &["-A", "-ww", "-o", "args="]).contains(directory));
}
