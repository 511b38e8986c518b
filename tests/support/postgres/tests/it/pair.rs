//! A primary and its standby.

use std::time::{Duration, Instant};

use scratch_postgres::{Pair, skip};

use crate::traces::{ask, execute, output};

/// The time that a standby may take.
const PATIENCE: Duration = Duration::from_secs(20);

async fn pair() -> Option<Pair> {
    match Pair::start().await {
        Ok(pair) => Some(pair),
        Err(error) => {
            skip("installed-postgres", error);
            None
        }
    }
}

const IN_RECOVERY: &str = "SELECT pg_is_in_recovery()::text";

#[tokio::test]
async fn the_standby_has_what_was_committed_and_takes_over() {
    let Some(mut pair) = pair().await else { return };
    assert_eq!(
        (ask(&pair.primary(), IN_RECOVERY).await, ask(&pair.standby(), IN_RECOVERY).await),
        ("false".to_owned(), "true".to_owned())
    );
    execute(&pair.primary(), "CREATE TABLE seen AS SELECT 1 AS n").await;
    let before = pair.primary();

    pair.fail_over().await.expect("a failover");

    assert_ne!(pair.primary(), before);
    assert_eq!(ask(&pair.both(), "SELECT sum(n)::text FROM seen").await, "1");
    execute(&pair.both(), "INSERT INTO seen VALUES (2)").await;

    pair.rejoin().await.expect("the old primary is a standby");

    assert_eq!((pair.standby(), ask(&pair.standby(), IN_RECOVERY).await), (before, "true".to_owned()));
    let begun = Instant::now();
    while ask(&pair.standby(), "SELECT sum(n)::text FROM seen").await != "3" {
        assert!(begun.elapsed() < PATIENCE, "the standby does not follow");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn nothing_is_left_of_it_after_a_drop() {
    let Some(pair) = pair().await else { return };
    let directory = ask(&pair.primary(), "SHOW data_directory").await;
    let directory = directory.strip_suffix("/node0").expect("its directory").to_owned();

    drop(pair);

    assert!(!std::path::Path::new(&directory).exists());
    assert!(!output("ps", &["-A", "-ww", "-o", "args="]).contains(&directory));
}
