//! The permissions of the page are enough, and no more than needed is granted.

use scratch_redis::Server;
use tonic_idempotency::store::{AbandonedQuery, KeyState, Store as _};

use crate::{
    record::{HOUR, acquire, assert_replayed, claim, complete, state},
    servers::{are_missing, at},
};

const PAGE: &str = include_str!("../../../docs/redis.md");

/// Has a server make the user of the page.
fn make_user(server: &Server) {
    let line = PAGE.lines().find(|line| line.starts_with("ACL SETUSER")).expect("the page makes a user");
    let words: Vec<_> = line.split_whitespace().collect();
    let answer = server.ask(&words);
    assert!(answer.contains("OK"), "{answer}");
}

#[tokio::test]
async fn those_of_the_page_are_enough_for_every_operation() {
    if are_missing() {
        return;
    }
    let server = Server::start(&[]).expect("a server");
    make_user(&server);
    let url = format!("redis://idempotency:password@{}/", server.address());
    let store = at(&url).prefix("idempotency").expect("a prefix");
    store.verify().await.expect("the server is set up");
    let [first, second, third] = [claim(), claim(), claim()];
    for claim in [&first, &second, &third] {
        acquire(&store, claim).await;
    }
    store.extend(&first.reservation, HOUR).await.expect("a renewal");
    complete(&store, &first, "first").await;
    assert_replayed(&store, &first, "first").await;
    store.release(&second.reservation).await.expect("a release");
    store.abandon(&third.reservation).await.expect("an abandonment");
    assert_eq!(state(&store, &third).await, KeyState::Unknown);
    let search =
        AbandonedQuery { procedures: vec![third.procedure.clone()], lookback: None, max_attempts: 9, batch: 9 };
    assert_eq!(store.abandoned(&search).await.expect("a search").len(), 1);
}

/// Records of another prefix are another service's.
#[tokio::test]
async fn those_of_the_page_reach_no_other_names() {
    if are_missing() {
        return;
    }
    let server = Server::start(&[]).expect("a server");
    make_user(&server);
    let url = format!("redis://idempotency:password@{}/", server.address());
    let error = at(&url).prefix("other").expect("a prefix").claim(&claim()).await.expect_err("not permitted");
    assert_eq!(error.kind(), tonic_idempotency::store::StoreErrorKind::Refused, "{error:?}");
}
