//! Servers that are away, silent, busy, or set up wrongly: the store reports the right error for each, and does nothing twice.

use std::{net::TcpListener, time::Duration};

use scratch_redis::Server;
use tcp_proxy::{Cut, Direction, Moment, Proxy};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::Instant,
};
use tonic_idempotency::store::{
    AbandonedQuery, ClaimOutcome, CompleteOutcome, Completion, KeyState, ReleaseOutcome, Store as _, StoreError,
    StoreErrorKind, StoredResponse,
};
use tonic_idempotency_redis::{
    RedisStore,
    redis::{self, Client, cluster::ClusterClientBuilder},
};

use crate::{
    record::{acquire, again, assert_replayed, claim, complete, completion, name_of, state},
    servers::{PATIENCE, at, cluster, on, shared, start, watched},
    until::until,
};

const SHORT: Duration = Duration::from_secs(1);

/// A store on a server behind a proxy, with an open connection; `None` if there is no server.
async fn behind_proxy() -> Option<(Server, Proxy, RedisStore)> {
    let server = start(&[])?;
    let proxy = Proxy::start(server.address()).expect("a proxy");
    let store = at(&format!("redis://{}/", proxy.address())).connections(1);
    acquire(&store, &claim()).await;
    Some((server, proxy, store))
}

/// Loses the next answer, after the server has executed the command.
fn lose_an_answer(proxy: &Proxy) {
    let moment = Moment::Bytes { direction: Direction::Answers, left: 0 };
    proxy.cut_later(Cut { all: true, moment }, || {});
}

/// Asserts that a claim has failed in this way.
fn assert_error(outcome: Result<ClaimOutcome, StoreError>, kind: StoreErrorKind, may_have_happened: bool) {
    let error = outcome.expect_err("it cannot be claimed");
    assert_eq!((error.kind(), error.may_have_happened()), (kind, may_have_happened), "{error:?}");
}

#[tokio::test]
async fn nothing_was_done_if_there_is_no_connection() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address");
    let url = format!("redis://{taken}/");
    let began = Instant::now();
    assert_error(at(&url).timeout(SHORT).claim(&claim()).await, StoreErrorKind::Unreachable, false);

    let cluster = RedisStore::cluster(ClusterClientBuilder::new([url])).expect("an address");
    assert_error(cluster.timeout(SHORT).claim(&claim()).await, StoreErrorKind::Unreachable, false);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn goes_on_when_the_server_is_back() {
    let Some(server) = start(&["appendonly yes", "appendfsync always"]) else { return };
    let store = on(&server);
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, "first").await;
    server.kill();
    assert!(store.clone().timeout(SHORT).claim(&again(&first)).await.is_err());
    server.restart().expect("the server starts again");
    assert_replayed(&store, &first, "first").await;
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_made_once() {
    let Some((_server, proxy, store)) = behind_proxy().await else { return };
    let first = claim();
    lose_an_answer(&proxy);
    acquire(&store, &first).await;
    let outcome = store.claim(&again(&first)).await.expect("an answer");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

/// An earlier attempt that may still arrive changes nothing as long as the key is held. Only the release waits for it.
#[tokio::test]
async fn a_claim_that_holds_its_key_does_not_wait_for_an_earlier_attempt() {
    let Some((server, proxy, store)) = behind_proxy().await else { return };
    // An attempt has a quarter of the time.
    let (store, attempt) = (store.timeout(4 * PATIENCE / 10), PATIENCE / 10);
    let first = claim();
    lose_an_answer(&proxy);
    let began = Instant::now();
    acquire(&store, &first).await;
    assert!(began.elapsed() < attempt, "{:?}", began.elapsed());
    let released = store.release(&first.reservation).await.expect("an answer");
    assert_eq!(released, ReleaseOutcome::Released);
    assert!(began.elapsed() >= attempt, "{:?}", began.elapsed());

    let held = claim();
    acquire(&on(&server).prefix("test:held").expect("a prefix"), &held).await;
    let store = store.prefix("test:held").expect("a prefix");
    lose_an_answer(&proxy);
    let began = Instant::now();
    let outcome = store.claim(&again(&held)).await.expect("an answer");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    // Another call holds its key, and may release it.
    assert!(began.elapsed() >= attempt, "{:?}", began.elapsed());
}

/// A truncated answer counts as lost, and not as corrupt.
#[tokio::test]
async fn an_answer_that_ends_in_the_middle_is_asked_for_again() {
    let Some((_server, proxy, store)) = behind_proxy().await else { return };
    for left in [1, 5, 12] {
        let moment = Moment::Bytes { direction: Direction::Answers, left };
        proxy.cut_later(Cut { all: true, moment }, || {});
        acquire(&store, &claim()).await;
    }
}

/// An answer in another protocol is an answer, and no reason to run unprotected.
#[tokio::test]
async fn a_server_that_is_not_redis_is_corrupt() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("redis://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            tokio::spawn(async move { connection.read_to_end(&mut Vec::new()).await });
        }
    });
    let cluster = RedisStore::cluster(ClusterClientBuilder::new([url.clone()])).expect("an address");
    for store in [at(&url), cluster] {
        assert_error(store.timeout(SHORT).claim(&claim()).await, StoreErrorKind::Corrupt, false);
    }
}

/// A store that sends to one node of a cluster is set up wrongly.
#[tokio::test]
async fn a_node_that_sends_to_another_refuses() {
    let Some(cluster) = cluster() else { return };
    let store = on(&cluster.nodes()[0]).timeout(SHORT);
    let mut refused = 0;
    for _ in 0..20 {
        match store.claim(&claim()).await {
            Ok(outcome) => assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}"),
            Err(error) => {
                assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Refused, false), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn an_outcome_whose_answer_was_lost_is_recorded_once() {
    let Some((_server, proxy, store)) = behind_proxy().await else { return };
    let [first, before] = [claim(), claim()];
    acquire(&store, &first).await;
    // The server has the script, so that the next answer is that of the script.
    acquire(&store, &before).await;
    complete(&store, &before, "before").await;
    lose_an_answer(&proxy);
    let outcome = store.complete(&first.reservation, &completion("first")).await.expect("an answer");
    assert_eq!(outcome, CompleteOutcome::AlreadyCompleted);
    assert_replayed(&store, &first, "first").await;
}

#[tokio::test]
async fn a_question_whose_answer_was_lost_is_asked_again() {
    let Some((_server, proxy, store)) = behind_proxy().await else { return };
    let search = AbandonedQuery { procedures: Vec::new(), lookback: None, max_attempts: 1, batch: 1 };
    lose_an_answer(&proxy);
    assert_eq!(store.abandoned(&search).await.expect("an answer"), []);
    lose_an_answer(&proxy);
    store.verify().await.expect("the server is set up");
}

#[tokio::test]
async fn a_connection_that_is_silent_is_replaced() {
    let Some((_server, proxy, store)) = behind_proxy().await else { return };
    let store = store.timeout(Duration::from_secs(4));
    let first = claim();
    acquire(&store, &first).await;
    proxy.silence_connections();
    complete(&store, &first, "first").await;
    assert_replayed(&store, &first, "first").await;
}

#[tokio::test]
async fn a_server_that_says_nothing_cannot_be_asked() {
    let Some(server) = start(&[]) else { return };
    // Its only connection is open.
    let store = on(&server).connections(1).timeout(SHORT);
    let first = claim();
    acquire(&store, &first).await;
    server.pause();
    let second = claim();
    assert_error(store.claim(&second).await, StoreErrorKind::Interrupted, true);
    server.resume();
    let store = store.timeout(PATIENCE);
    complete(&store, &first, "first").await;
    // The server may have carried out the claim, and then knows its token.
    acquire(&store, &second).await;
}

/// A slow server can be asked: no policy lets a call run unprotected beside it.
#[tokio::test]
async fn a_server_that_is_busy_is_overloaded() {
    let Some(server) = start(&["busy-reply-threshold 50"]) else { return };
    let store = on(&server).timeout(SHORT);
    acquire(&store, &claim()).await;
    let client = Client::open(server.url()).expect("an address");
    let busy = tokio::task::spawn_blocking(move || {
        let mut connection = client.get_connection().expect("a connection");
        let _: Result<(), _> = redis::cmd("EVAL").arg("while true do end").arg(0).query(&mut connection);
    });
    until("the script runs", async || server.ask(&["PING"]).contains("BUSY")).await;
    assert_error(store.claim(&claim()).await, StoreErrorKind::Overloaded, false);
    assert!(server.ask(&["SCRIPT", "KILL"]).contains("OK"));
    busy.await.expect("the script was killed");
    acquire(&store.timeout(PATIENCE), &claim()).await;
}

/// A store that may not log in is set up wrongly: its calls are refused, and never run unprotected.
#[tokio::test]
async fn a_server_that_wants_another_password_refuses() {
    let Some(server) = start(&["requirepass right"]) else { return };
    let address = server.address();
    for login in ["", ":wrong@"] {
        let url = format!("redis://{login}{address}/");
        let error = at(&url).timeout(SHORT).claim(&claim()).await.expect_err("refused");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Refused, false), "{login}: {error:?}");
        let cluster = RedisStore::cluster(ClusterClientBuilder::new([url])).expect("an address");
        let error = cluster.timeout(SHORT).claim(&claim()).await.expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{login}: {error:?}");
    }
    acquire(&at(&format!("redis://:right@{address}/")), &claim()).await;
}

#[tokio::test]
async fn a_replica_takes_no_claim() {
    let Some(watched) = watched() else { return };
    let [_, replica] = watched.servers();
    assert_error(on(replica).timeout(SHORT).claim(&claim()).await, StoreErrorKind::Overloaded, false);
}

#[tokio::test]
async fn a_record_that_is_not_one_is_corrupt() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server).prefix("x").expect("a prefix");
    let [other_type, other_fields] = [claim(), claim()];
    server.ask(&["SET", &name_of(&other_type, "x"), "1"]);
    let error = store.claim(&other_type).await.expect_err("not a record");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error:?}");

    acquire(&store, &other_fields).await;
    complete(&store, &other_fields, "first").await;
    server.ask(&["HSET", &name_of(&other_fields, "x"), "outcome", "perhaps"]);
    let error = store.claim(&again(&other_fields)).await.expect_err("not an outcome");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error:?}");
}

/// Bytes of every value come back as they were.
#[tokio::test]
async fn a_response_of_any_bytes_is_kept() {
    let Some(store) = shared() else { return };
    let every_byte: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let first = claim();
    acquire(&store, &first).await;
    let response = StoredResponse::message(every_byte.clone());
    let completion = Completion { response: response.clone(), ..completion("") };
    store.complete(&first.reservation, &completion).await.expect("a completion");
    match store.claim(&again(&first)).await.expect("an answer") {
        ClaimOutcome::Replay(replay) => assert!(replay.response == response, "other bytes"),
        other => panic!("no replay but {other:?}"),
    }
}

/// The first attempt stalls, a second attempt reserves the key, and the call releases it; or another call holds the key, and releases it.
#[tokio::test]
async fn a_claim_that_arrives_after_its_call_reserves_nothing() {
    let Some((server, proxy, store)) = behind_proxy().await else { return };
    let [store, holder] = [store.timeout(4 * SHORT), on(&server)].map(|it| it.prefix("test:late").expect("a prefix"));
    for is_held in [false, true] {
        let first = claim();
        let held = again(&first);
        acquire(&store, &claim()).await;
        if is_held {
            acquire(&holder, &held).await;
        }
        proxy.stall_connections();
        let outcome = store.claim(&first).await.expect("another connection answers");
        assert_eq!(matches!(outcome, ClaimOutcome::InFlight { .. }), is_held, "{outcome:?}");
        let (of, reservation) = if is_held { (&holder, held.reservation) } else { (&store, first.reservation) };
        of.release(&reservation).await.expect("an answer");
        proxy.release();
        until("the late attempt has arrived", async || proxy.ports().len() == 1).await;
        assert_eq!(state(&holder, &first).await, KeyState::Absent, "held by another call: {is_held}");
    }
}
