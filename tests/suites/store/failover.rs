//! A primary that is lost, and a standby that takes over; and connections that lead to a standby.

use StoreErrorKind::{Interrupted, Overloaded, Unreachable};
use scratch_postgres::Pair;
use tokio::{sync::watch, task::yield_now};

use crate::prelude::*;

/// Two servers, a database on the primary, and a proxy that leads to it; `None` if there are no server binaries.
struct Scene {
    database: Database,
    pair: Pair,
    proxy: Proxy,
}

impl Scene {
    async fn new() -> Option<Self> {
        let pair = match Pair::start().await {
            Ok(pair) => pair,
            Err(error) => {
                skip("installed-postgres", error);
                return None;
            }
        };
        let database = Database::on(&pair.primary()).await;
        let proxy = Proxy::start(pair.address_of_primary()).expect("a proxy");
        Some(Self { database, pair, proxy })
    }

    /// A store on a pool that connects through the proxy.
    fn through_proxy(&self, size: usize) -> (Pool, PostgresStore) {
        let address = self.proxy.address().to_string();
        let url = self.pair.primary().replacen(&self.pair.address_of_primary().to_string(), &address, 1);
        self.at(&url, size)
    }

    fn at(&self, url: &str, size: usize) -> (Pool, PostgresStore) {
        let pool = pool(url.parse().expect("an address"), size, format!("SET ROLE {API_ROLE}"));
        let store = PostgresStore::new(pool.clone(), organization::resource_types());
        (pool, store.timeout(Duration::from_secs(10)))
    }
}

fn assert_replays(outcome: Result<ClaimOutcome, StoreError>) {
    let response = replayed(outcome.expect("the store answers")).response;
    assert!(matches!(response, StoredResponse::Message(_)), "{response:?}");
}

/// Nothing was done, and the connection is closed.
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, pool: &Pool) {
    let error = outcome.expect_err("a standby");
    assert_eq!((error.kind(), error.may_have_happened()), (Overloaded, false), "{error:?}");
    assert_eq!(pool.status().size, 0, "a connection to the standby is kept");
}

#[tokio::test]
async fn a_pool_with_both_hosts_finds_the_new_primary_and_the_records_are_there() {
    let Some(mut scene) = Scene::new().await else { return };
    let (_, store) = scene.at(&scene.pair.both(), 4);
    let [first, reserved] = [(); 2].map(|()| new_claim());
    complete(&store, &first, &completion("done")).await;
    store.claim(&reserved).await.expect("the store answers");

    scene.pair.fail_over().await.expect("a failover");

    assert_replays(store.claim(&again(&first)).await);
    assert_in_flight(&store, &reserved).await;
    // The token of before holds the key at the new primary, too.
    record(&store, &reserved, "done").await;
}

/// The primary changes twice.
#[tokio::test]
async fn an_old_primary_that_rejoins_takes_over_with_the_records_of_the_new_one() {
    let Some(mut scene) = Scene::new().await else { return };
    let (_, store) = scene.at(&scene.pair.both(), 4);
    scene.pair.fail_over().await.expect("a failover");
    let claim = new_claim();
    complete(&store, &claim, &completion("done")).await;

    scene.pair.rejoin().await.expect("the old primary is a standby");
    scene.pair.fail_over().await.expect("a failover");

    assert_replays(store.claim(&again(&claim)).await);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_failover_and_what_was_refused_may_be_tried_again() {
    let Some(mut scene) = Scene::new().await else { return };
    let (_, store) = scene.at(&scene.pair.both(), 4);
    let (stop, stopped) = watch::channel(false);
    let claims = tokio::spawn({
        let store = store.clone();
        async move {
            let (mut acquired, mut kinds) = (Vec::new(), Vec::new());
            while !*stopped.borrow() {
                let claim = new_claim();
                match store.claim(&claim).await {
                    Ok(ClaimOutcome::Acquired) => acquired.push(claim),
                    Ok(other) => panic!("expected a reservation, got {other:?}"),
                    Err(error) => kinds.push(error.kind()),
                }
            }
            (acquired, kinds)
        }
    });
    scene.pair.fail_over().await.expect("a failover");
    let is_back = async || store.claim(&new_claim()).await.is_ok();
    until("the new primary answers", is_back).await;
    stop.send_replace(true);
    let (acquired, kinds) = claims.await.expect("no panic");
    assert!(
        !acquired.is_empty() && kinds.iter().all(|kind| matches!(kind, Interrupted | Overloaded | Unreachable)),
        "{kinds:?}"
    );
    for claim in acquired {
        assert_in_flight(&store, &claim).await;
    }
}

/// Also a serializable transaction, at whose BEGIN the server answers with the SQLSTATE of a prepared statement that is stale.
#[tokio::test]
async fn a_standby_does_nothing_and_the_connection_to_it_is_closed() {
    let Some(scene) = Scene::new().await else { return };
    let (pool, store) = scene.through_proxy(1);
    scene.proxy.lead_to(scene.pair.address_of_standby());
    let held = new_claim();
    assert_refused(store.claim(&held).await, &pool);
    assert_refused(store.extend(&held.reservation, Duration::from_secs(1)).await, &pool);
    assert_refused(store.complete(&held.reservation, &completion("done")).await, &pool);
    assert_refused(store.release(&held.reservation).await, &pool);
    assert_refused(store.abandon(&held.reservation).await, &pool);
    assert_refused(store.sweep(10).await, &pool);
    let serializable = TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
    assert_refused(store.begin(&held, serializable).await, &pool);
    for options in [TransactionOptions::default(), serializable] {
        assert_refused(store.begin_without_key(None, &held.session, options).await, &pool);
    }
    assert_eq!(visible(&scene.database).await, 0);
}

/// A new key, and the transaction of its call.
async fn begun(store: &PostgresStore) -> (Claim, Box<dyn StoreTransaction>) {
    let claim = new_claim();
    let transaction = open_transaction(store, &claim).await;
    (claim, transaction)
}

#[tokio::test]
async fn a_connection_to_a_standby_is_replaced_by_one_to_the_primary_in_the_same_operation() {
    let Some(scene) = Scene::new().await else { return };
    let (pool, store) = scene.through_proxy(4);
    scene.proxy.lead_to(scene.pair.address_of_standby());
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(pool.get().await.expect("a connection to the standby"));
    }
    drop(connections);
    scene.proxy.lead_to(scene.pair.address_of_primary());
    let first = new_claim();
    complete(&store, &first, &completion("done")).await;
    // The others were idle as long, and are closed with it.
    assert_eq!(pool.status().size, 1);
    let begun = store.begin(&new_claim(), TransactionOptions::default()).await;
    assert!(matches!(begun, Ok(BeginOutcome::Open { .. })), "{begun:?}");
}

/// A failover may undo changes that a standby has, and the standby may lack the last changes of its primary.
#[tokio::test]
async fn a_standby_answers_nothing_about_a_key() {
    let Some(scene) = Scene::new().await else { return };
    let (_, at_primary) = scene.through_proxy(1);
    let done = new_claim();
    complete(&at_primary, &done, &completion("done")).await;
    // From now on, it looks for records first.
    assert_replays(at_primary.claim(&again(&done)).await);
    let reserved = new_claim();
    at_primary.claim(&reserved).await.expect("the store answers");
    let abandoned = new_claim();
    at_primary.claim(&abandoned).await.expect("the store answers");
    at_primary.abandon(&abandoned.reservation).await.expect("the store answers");
    let standby = Database::of(&scene.pair.standby());
    let has_all = "SELECT count(*) = 3 AND bool_or(outcome_unknown) FROM tenant.idempotency_keys";
    let seen = async || standby.owner().await.query_one(has_all, &[]).await.expect("a count").get::<_, bool>(0);
    until("the standby has the records", seen).await;

    scene.proxy.lead_to(scene.pair.address_of_standby());
    let (pool, store) = scene.through_proxy(1);
    let absent = new_claim();
    for claim in [&done, &reserved, &abandoned, &absent] {
        assert_refused(store.claim(&again(claim)).await, &pool);
        assert_refused(store.begin(&again(claim), TransactionOptions::default()).await, &pool);
        assert_refused(store.look_up(&question(claim, false)).await, &pool);
    }
    // Not even to the call that holds the reservation.
    assert_refused(store.claim(&reserved).await, &pool);
}

/// The statement that several calls share, too: it looks for their records.
#[tokio::test]
async fn calls_that_share_a_statement_at_a_standby_get_no_replay() {
    let Some(scene) = Scene::new().await else { return };
    let (pool, store) = scene.through_proxy(4);
    let claims: Vec<_> = (0..12).map(|_| new_claim()).collect();
    let done = completion("done");
    join_all(claims.iter().map(|claim| complete(&store, claim, &done))).await;
    // From now on, it looks for records first.
    let retries: Vec<_> = claims.iter().map(again).collect();
    for outcome in join_all(retries.iter().map(|claim| store.claim(claim))).await {
        assert_replays(outcome);
    }
    let standby = Database::of(&scene.pair.standby());
    let has_all = "SELECT count(response_bytes) = 12 FROM tenant.idempotency_keys";
    let seen = async || standby.owner().await.query_one(has_all, &[]).await.expect("a count").get::<_, bool>(0);
    until("the standby has the records", seen).await;

    scene.proxy.lead_to(scene.pair.address_of_standby());
    scene.proxy.cut_connections();
    for outcome in join_all(retries.iter().map(|claim| store.claim(claim))).await {
        assert_refused(outcome, &pool);
    }
}

/// The records that others see at the primary.
async fn visible(database: &Database) -> i64 {
    count(&database.owner().await, "tenant.idempotency_keys").await
}

/// How many statements wait for the standby.
async fn waiting(database: &Database) -> i64 {
    count(&database.owner().await, "pg_stat_activity WHERE wait_event = 'SyncRep'").await
}

/// A server that is asked to cancel such a statement answers that it has succeeded, and a failover takes the record back.
#[tokio::test]
async fn nothing_that_waits_for_a_synchronous_standby_is_cancelled_and_then_believed() {
    let Some(scene) = Scene::new().await else { return };
    let (_, store) = scene.at(&scene.pair.primary(), 40);
    let store = store.timeout(Duration::from_secs(4));
    scene.pair.kill_standby().await.expect("it is killed");
    // They share statements, but for the first.
    let claims: Vec<_> = (0..12).map(|_| new_claim()).collect();
    let outcomes = join_all(claims.iter().map(|claim| store.claim(claim))).await;
    for outcome in outcomes {
        let error = outcome.expect_err("the standby has not got it");
        assert!(error.may_have_happened(), "{error:?}");
    }
    assert!(waiting(&scene.database).await > 0);
    assert_eq!(visible(&scene.database).await, 0, "a wait was cancelled");
}

#[tokio::test]
async fn a_commit_that_waits_for_a_synchronous_standby_is_not_cancelled() {
    let Some(scene) = Scene::new().await else { return };
    let (pool, store) = scene.at(&scene.pair.primary(), 4);
    let store = store.timeout(Duration::from_secs(5));
    let [given_up, dropped] = [begun(&store).await, begun(&store).await];
    scene.pair.kill_standby().await.expect("it is killed");

    let error = given_up.1.commit(Some(completion("done"))).await.expect_err("the standby has not got it");
    assert_eq!(error.kind(), Interrupted, "{error:?}");
    let commit = tokio::spawn(dropped.1.commit(Some(completion("done"))));
    until("both wait", async || waiting(&scene.database).await == 2).await;
    commit.abort();
    for _ in 0..100 {
        yield_now().await;
    }
    let in_use = pool.status().size - pool.status().available;
    assert_eq!((in_use, waiting(&scene.database).await), (2, 2), "they keep their places");
    assert_eq!(visible(&scene.database).await, 0, "a wait was cancelled");
}

/// The standby has what was committed on its disk, and does not show it yet.
#[tokio::test]
async fn a_lost_commit_is_not_looked_up_at_a_standby() {
    let Some(scene) = Scene::new().await else { return };
    let (_, store) = scene.through_proxy(2);
    let store = store.timeout(Duration::from_secs(5));
    let (claim, transaction) = begun(&store).await;
    pause_replay(&scene.pair.standby()).await;
    scene.proxy.lead_to(scene.pair.address_of_standby());
    scene.proxy.cut_later(Cut { all: false, moment: Moment::AfterCommit }, || ());

    let error = transaction.commit(Some(completion("done"))).await.expect_err("no answer");

    assert_eq!(error.kind(), Interrupted, "{error:?}");
    scene.proxy.lead_to(scene.pair.address_of_primary());
    assert_replays(store.claim(&again(&claim)).await);
}

/// The connections of the pool lead to two primaries. The new one has the commit; the old one, which is not fenced, still waits for the
/// answer of its standby.
#[tokio::test]
async fn a_lost_commit_is_looked_up_at_one_server_at_a_time() {
    let Some(mut scene) = Scene::new().await else { return };
    let owner = scene.database.owner().await;
    owner.batch_execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'").await.expect("the setting");
    owner.batch_execute("SELECT pg_reload_conf()").await.expect("the setting");
    let (pool, store) = scene.through_proxy(4);
    let store = store.timeout(Duration::from_secs(5));
    let (claim, transaction) = begun(&store).await;
    let to_old = pool.get().await.expect("a connection");
    pause_replay(&scene.pair.standby()).await;
    let commit = tokio::spawn(transaction.commit(Some(completion("done"))));
    until("the COMMIT waits", async || waiting(&scene.database).await == 1).await;
    let received = "SELECT (pg_last_wal_receive_lsn() - '0/0')::int8";
    let written = "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8";
    let written: i64 = value(&owner, written).await;
    let standby = Database::of(&scene.pair.standby()).owner().await;
    let has_it = async || value::<i64>(&standby, received).await >= written;
    until("the standby has it", has_it).await;
    // Otherwise the standby might report the replay just before it is promoted.
    let part = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication";
    owner.execute(part, &[]).await.expect("the standby receives nothing any more");

    scene.pair.split().await.expect("the standby is promoted");
    scene.proxy.lead_to(scene.pair.address_of_primary());
    let to_new = pool.get().await.expect("a connection");
    // The first to come back is the first to be used.
    drop(to_new);
    drop(to_old);

    assert_eq!(commit.await.expect("no panic").expect("it is committed"), CommitOutcome::Committed);
    assert_eq!((waiting(&scene.database).await, visible(&scene.database).await), (1, 0));
    let (_, at_new) = scene.at(&scene.pair.primary(), 1);
    assert_replays(at_new.claim(&again(&claim)).await);
}

/// The connections of the pool lead to two primaries. The old one knows nothing of the transaction, and waits in vain before it says so.
#[tokio::test]
async fn a_lost_commit_is_not_looked_up_at_an_old_primary_that_is_not_fenced() {
    let Some(mut scene) = Scene::new().await else { return };
    let (pool, store) = scene.through_proxy(4);
    let store = store.timeout(Duration::from_secs(5));
    let to_old = pool.get().await.expect("a connection");
    scene.pair.split().await.expect("the standby is promoted");
    scene.proxy.lead_to(scene.pair.address_of_primary());
    let (claim, transaction) = begun(&store).await;
    // It is the first to be used.
    drop(to_old);
    scene.proxy.cut_later(Cut { all: false, moment: Moment::AfterCommit }, || ());

    committed(transaction, completion("done")).await;
    assert_eq!(waiting(&scene.database).await, 1);
    assert_replays(store.claim(&again(&claim)).await);
}

/// Lets a standby receive everything, and show nothing of it until it is promoted.
async fn pause_replay(standby: &str) {
    let owner = Database::of(standby).owner().await;
    owner.batch_execute("SELECT pg_wal_replay_pause()").await.expect("a standby");
    let is_paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'";
    until("it pauses", async || value(&owner, is_paused).await).await;
}

/// As after a wait that an operator has cancelled, or a restart of the primary.
#[tokio::test]
async fn a_reservation_that_the_standby_may_lack_is_not_taken_for_one_of_the_same_call() {
    let Some(scene) = Scene::new().await else { return };
    let (_, store) = scene.at(&scene.pair.primary(), 4);
    let store = store.timeout(Duration::from_secs(2));
    scene.pair.kill_standby().await.expect("it is killed");
    let claim = new_claim();
    store.claim(&claim).await.expect_err("the standby has not got it");
    let owner = scene.database.owner().await;
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    owner.execute(cancel, &[]).await.expect("the waits end");
    until("the reservation is visible", async || visible(&scene.database).await == 1).await;
    let error = store.claim(&claim).await.expect_err("the standby still has not got it");
    assert!(error.may_have_happened(), "{error:?}");
}
