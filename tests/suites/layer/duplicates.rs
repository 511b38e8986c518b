//! Many duplicates of one call at once.

use crate::prelude::*;

async fn one_of_fifty_runs(store: impl Store) {
    let shop = Shop::on(store).await;
    let mut calls = shop.spawn_all(50, |shop| async move { shop.create("hold").await });
    until("one handler runs", async || shop.handler.started() == 1).await;
    // All other calls end before the handler does.
    let mut outcomes = Vec::new();
    while outcomes.len() < 49 {
        outcomes.push(calls.join_next().await.expect("a call").expect("no panic"));
    }
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(|status| status.code() == Code::Aborted)));
    shop.handler.open(1);
    let first = calls.join_next().await.expect("a call").expect("no panic").expect("the first call");
    assert_eq!(shop.create("hold").await.expect("a replay").message, first.message);
    assert_eq!((shop.handler.started(), shop.handler.finished()), (1, 1));
}
on_both_stores!(one_of_fifty_runs flavor = "multi_thread", worker_threads = 2);
