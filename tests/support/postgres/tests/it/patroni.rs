//! Servers under Patroni.

use scratch_postgres::{Patroni, Replication, skip};

use crate::traces::{Traces, ask};

#[tokio::test]
async fn nothing_is_left_after_a_drop() {
    if let Some(why) = Patroni::missing() {
        return skip("patroni", why);
    }
    let patroni = Patroni::start(Replication::Synchronous).await.expect("it starts");
    let traces = Traces::above(&ask(&patroni.url_of(&[patroni.front()]), "SHOW data_directory").await);
    assert!(traces.are_there());

    drop(patroni);

    assert!(!traces.are_there(), "{traces:?}");
}
