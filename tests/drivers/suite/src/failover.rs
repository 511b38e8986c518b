//! Failovers: calls find the new primary, and none runs at a standby. Lost standbys: commits wait for them.

use std::time::Duration;

use futures_util::future::join_all;
use protobuf_canonical::RequestHash;
use scratch_postgres::{Pair, skip};
use tonic::Code;
use tonic_idempotency::{
    rejection::Reason,
    store::{
        BeginOutcome, Claim, ClaimOutcome, Completion, Reservation, Store as _, StoreErrorKind, StoredResponse,
        TransactionOptions,
    },
};
use tonic_idempotency_tests::{Database, Proxy, until};
use tonic_types::StatusExt as _;

use crate::{Call, Service, Stack, all_are_back, fill, new_claim, pool_at, rows, store};

/// Two servers; `None` if there are no server binaries.
async fn pair() -> Option<Pair> {
    match Pair::start().await {
        Ok(pair) => Some(pair),
        Err(error) => {
            skip("installed-postgres", error);
            None
        }
    }
}

/// A proxy in front of the primary, and a pool that connects through it.
fn pool_through<S: Stack>(pair: &Pair, size: usize) -> (Proxy, S::Pool) {
    let primary = pair.address_of_primary();
    let proxy = Proxy::start(primary).expect("a proxy");
    let url = pair.primary().replacen(&primary.to_string(), &proxy.address().to_string(), 1);
    (proxy, pool_at::<S>(url, size, ""))
}

/// The proxy leads to a standby at first, and then to the primary.
pub async fn a_call_at_a_standby_is_refused_and_its_connection_is_closed<S: Stack>() {
    let Some(pair) = pair().await else { return };
    let database = Database::on(&pair.primary()).await;
    let (proxy, pool) = pool_through::<S>(&pair, 4);
    let service = Service::inserting::<S>(&database, pool.clone()).await;
    let first = service.create("shop").await.expect("a call");
    fill::<S>(&pool, 4).await;
    proxy.lead_to(pair.address_of_standby());
    proxy.cut_connections();

    // The records of a standby are no answer, either.
    let keys = [service.with_new_key().key, service.key, None];
    for (key, name) in keys.into_iter().zip(["another", "shop", "another"]) {
        let refused = service.with_key(key).create(name).await.expect_err("a standby");
        assert_eq!((refused.code(), Reason::of(&refused)), (Code::Unavailable, Some(Reason::Overloaded)));
        assert!(refused.get_details_retry_info().is_some_and(|info| info.retry_delay.is_some()), "{refused:?}");
        assert_eq!((service.runs(), S::connections(&pool).open), (1, 0));
    }
    // Connections to the standby are in the pool now.
    fill::<S>(&pool, 4).await;
    proxy.lead_to(pair.address_of_primary());
    service
        .with_new_key()
        .create("another")
        .await
        .expect("the first attempt finds out, and the next has another connection");
    all_are_back::<S>(&pool).await;
    assert_eq!(service.runs(), 2);
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.replayed, replay.project, service.runs()), (true, first.project, 2));
    assert_eq!(rows(&Database::of(&pair.primary()).owner().await).await, [2, 2, 2]);
}

pub async fn a_call_whose_primary_is_lost_before_its_commit_leaves_nothing_and_its_retry_runs<S: Stack>() {
    let Some(mut pair) = pair().await else { return };
    let database = Database::on(&pair.primary()).await;
    let (proxy, pool) = pool_through::<S>(&pair, 4);
    let (wrote, written) = tokio::sync::watch::channel(0);
    let (let_go, go) = tokio::sync::watch::channel(false);
    let service = Service::new(&database, pool.clone(), move |call: Call<S>| {
        let (wrote, mut go) = (wrote.clone(), go.clone());
        async move {
            let project = call.insert().await?;
            wrote.send_modify(|calls| *calls += 1);
            go.wait_for(|go| *go).await.expect("it is not closed");
            Ok(project)
        }
    })
    .await;
    let call = service.spawn("shop");
    written.clone().wait_for(|calls| *calls == 1).await.expect("the handler runs");
    pair.fail_over().await.expect("a failover");
    proxy.lead_to(pair.address_of_primary());
    let_go.send_replace(true);
    let refused = call.await.expect("no panic").expect_err("its transaction is lost");
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::Unavailable, Some(Reason::StoreUnavailable)));
    let retry = service.create("shop").await.expect("a call");
    assert_eq!((retry.replayed, service.runs()), (false, 2));
    assert_eq!(rows(&Database::of(&pair.primary()).owner().await).await, [1, 1, 1]);
}

/// They are not cancelled. If the store closed their connections, the pool would open others, without end.
pub async fn commits_that_hang_take_no_more_processes_than_the_pool_may_have<S: Stack>() {
    const CONNECTIONS: usize = 4;
    let Some(pair) = pair().await else { return };
    let database = Database::on(&pair.primary()).await;
    let owner = database.owner().await;
    let pool = pool_at::<S>(pair.primary(), CONNECTIONS, "SET application_name = 'pool'");
    let store = store::<S>(pool).timeout(Duration::from_secs(2));
    let BeginOutcome::Open { transaction, .. } =
        store.begin(&new_claim(), TransactionOptions::default()).await.expect("the store answers")
    else {
        panic!("the key is new")
    };
    pair.kill_standby().await.expect("it is killed");

    let response = StoredResponse::message("done");
    let completion = Completion { response, resource: None, retention: Duration::from_secs(60) };
    let lost = transaction.commit(Some(completion)).await;
    let mut kinds = vec![lost.expect_err("no standby has it").kind()];
    for _ in 0..4 {
        let claims: Vec<_> = (0..2 * CONNECTIONS).map(|_| new_claim()).collect();
        let outcomes = join_all(claims.iter().map(|claim| store.claim(claim))).await;
        kinds.extend(outcomes.into_iter().map(|outcome| outcome.expect_err("no standby has it").kind()));
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pool'";
        // One more may be asking about them.
        let processes: i64 = owner.query_one(count, &[]).await.expect("a count").get(0);
        assert!(usize::try_from(processes).is_ok_and(|it| it <= CONNECTIONS + 1), "{processes} processes");
    }
    let refused = kinds.iter().rev().take(2 * CONNECTIONS);
    assert!(refused.clone().all(|kind| *kind == StoreErrorKind::Overloaded), "{:?}", refused.collect::<Vec<_>>());

    owner.batch_execute("ALTER SYSTEM SET synchronous_standby_names = ''").await.expect("the setting");
    owner.batch_execute("SELECT pg_reload_conf()").await.expect("the setting");
    until("they have ended", async || store.claim(&new_claim()).await.is_ok()).await;
    // Each connection is as it was. (One is not for transactions.)
    let claims: Vec<_> = (1..CONNECTIONS).map(|_| new_claim()).collect();
    let begun = join_all(claims.iter().map(|claim| store.begin(claim, TransactionOptions::default()))).await;
    assert!(begun.iter().all(|begun| matches!(begun, Ok(BeginOutcome::Open { .. }))));
}

/// Their statements are in time and their commits late, so no call holds the keys that they reserve. Some go alone, and some together.
pub async fn claims_whose_commits_are_later_than_their_calls_keep_no_key<S: Stack>() {
    let Some(pair) = pair().await else { return };
    let database = Database::on(&pair.primary()).await;
    let owner = database.owner().await;
    // Enough for all attempts, and for the releases.
    let pool = pool_at::<S>(pair.primary(), 40, "");
    let store = store::<S>(pool.clone()).timeout(Duration::from_secs(2));
    let claims: Vec<_> = (0..8).map(|_| new_claim()).collect();
    let release = async |claim: &Claim| store.release(&claim.reservation).await;
    join_all(claims.iter().map(|claim| store.claim(claim))).await;
    join_all(claims.iter().map(release)).await;
    assert_eq!(rows(&owner).await[2], 0, "the records");
    pair.kill_standby().await.expect("it is killed");

    for outcome in join_all(claims.iter().map(|claim| store.claim(claim))).await {
        outcome.expect_err("no standby has it");
    }
    // The layer asks until the store has taken it.
    let taken = join_all(claims.iter().map(release)).await;
    owner.batch_execute("ALTER SYSTEM SET synchronous_standby_names = ''").await.expect("the setting");
    owner.batch_execute("SELECT pg_reload_conf()").await.expect("the setting");
    for (claim, _) in claims.iter().zip(taken).filter(|(_, taken)| taken.is_err()) {
        until("the store takes it", async || release(claim).await.is_ok()).await;
    }
    all_are_back::<S>(&pool).await;
    for claim in claims {
        let reservation = Reservation::new(claim.reservation.owner, claim.reservation.key);
        let corrected = Claim { reservation, request: RequestHash::from([8; 32]).into(), ..claim };
        let outcome = store.claim(&corrected).await.expect("the store answers");
        assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
    }
}
