//! A table of keys with partitions, and one that is moved to them meanwhile.

use crate::{
    harness::run,
    kept::{SHORT, all_promises_were_kept},
};

/// Disturbances of the move itself. In a short run, some of them come when no move is under way.
const DISTURBANCES: [&str; 3] = ["| move taken back", "| second mover started", "| movers killed"];

#[tokio::test]
async fn promises_are_kept_on_partitions_while_everything_fails() {
    let Some(ended) = run(&[&SHORT[..], &["--mode", "reserved", "--partitions", "16"]].concat()).await else { return };
    all_promises_were_kept(&ended);
    assert!(ended.said().contains(", 16 partitions"), "{}", ended.said());
}

#[tokio::test]
async fn promises_are_kept_on_the_way_to_partitions_while_everything_fails() {
    for mode in ["transactional", "reserved"] {
        let flags = [&SHORT[..], &["--mode", mode, "--partitions", "4", "--moving"]].concat();
        let Some(ended) = run(&flags).await else { return };
        all_promises_were_kept(&ended);
        assert!(ended.said().contains(", moved to 4 partitions"), "{}", ended.said());
        assert!(DISTURBANCES.iter().any(|fault| ended.said().contains(fault)), "{}", ended.said());
    }
}
