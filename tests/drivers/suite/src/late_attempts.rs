//! Attempts that arrive after their call has abandoned them.

use std::time::Duration;

use futures_util::future::join_all;
use protobuf_canonical::RequestHash;
use tokio::time::timeout;
use tonic_idempotency::store::{
    AbandonOutcome, BeginOutcome, Claim, ClaimOutcome, ReleaseOutcome, Reservation, SqlStore, Store, StoreErrorKind,
    TransactionOptions, driver::Connection,
};
use tonic_idempotency_tests::{Database, Proxy, until};

use crate::{Stack, all_are_back, new_claim, patient, pool_through_proxy, rows, store, take};

/// The time that an attempt has before the next is made: a quarter of an operation's time.
const SHARE: Duration = Duration::from_secs(1);

/// The connections that a pool may have.
const CONNECTIONS: usize = 16;

/// A store with this number of connections, on which all that it sends has been prepared, and which are stalled then.
async fn stalled<S: Stack>(connections: usize) -> (Database, Proxy, S::Pool, SqlStore<S::Driver>) {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, CONNECTIONS).await;
    let store = store::<S>(pool.clone()).timeout(4 * SHARE).status_timeout(SHARE / 4);
    let mut others = take::<S>(&pool, CONNECTIONS).await;
    let mut ours = Vec::new();
    for _ in 0..connections {
        drop(others.pop());
        claim_and_release(&store, &new_claims()).await;
        ours.extend(take::<S>(&pool, 1).await);
    }
    others.into_iter().for_each(Connection::close);
    drop(ours);
    all_are_back::<S>(&pool).await;
    proxy.stall_connections();
    (database, proxy, pool, store)
}

/// Claims that go together after the first one.
fn new_claims() -> Vec<Claim> {
    (0..12).map(|_| new_claim()).collect()
}

/// Claims keys at once, and releases each.
async fn claim_and_release(store: &impl Store, claims: &[Claim]) {
    let one = async |claim: &Claim| {
        let outcome = store.claim(claim).await.expect("another connection answers");
        assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
        // On a busy machine an attempt may still have time when the release has none left: then it is sent again, as the layer does.
        let released = loop {
            match store.release(&claim.reservation).await {
                Err(error) if error.kind() == StoreErrorKind::Overloaded => {}
                released => break released,
            }
        };
        assert!(matches!(released, Ok(ReleaseOutcome::Released)), "{released:?}");
    };
    join_all(claims.iter().map(one)).await;
}

/// Lets everything arrive, and asserts that the keys are free: also for another request.
async fn assert_free<S: Stack>(world: (&Database, &Proxy, &S::Pool, &SqlStore<S::Driver>), claims: &[Claim]) {
    let (database, proxy, pool, store) = world;
    proxy.release();
    all_are_back::<S>(pool).await;
    // Statements that arrive on a connection that its client has closed are carried out, too.
    let owner = database.owner().await;
    let connections = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let left = async || -> i64 { owner.query_one(connections, &[]).await.expect("the count").get(0) };
    let open = || i64::try_from(S::connections(pool).open).expect("a few");
    until("the closed connections have ended", async || left().await == open()).await;
    assert_eq!(rows(&owner).await[2], 0, "the records");
    for claim in claims {
        let reservation = Reservation::new(claim.reservation.owner, claim.reservation.key);
        let corrected = Claim { reservation, request: RequestHash::from([8; 32]).into(), ..claim.clone() };
        let outcome = store.claim(&corrected).await.expect("the store answers");
        assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
    }
}

/// One claim; one of a call that waits for a status, which makes its second attempt before the time of the first is over and keeps the key
/// from being released until then; and many, of which the first goes alone, and the others go together, on a connection that is
/// stalled, too.
pub async fn to_claim_keys_reserve_nothing<S: Stack>() {
    let with_status = Claim { resource_type: Some("project".to_owned()), ..new_claim() };
    for (connections, claims) in [(1, vec![new_claim()]), (1, vec![with_status]), (6, new_claims())] {
        let (database, proxy, pool, store) = stalled::<S>(connections).await;
        claim_and_release(&store, &claims).await;
        assert_free::<S>((&database, &proxy, &pool, &store), &claims).await;
    }
}

/// One that is only slow does not keep the key for all of its time.
pub async fn that_are_answered_do_not_keep_the_key<S: Stack>() {
    let (database, proxy, pool, store) = stalled::<S>(1).await;
    let claims = [Claim { resource_type: Some("project".to_owned()), ..new_claim() }];
    let patient = store.clone().timeout(60 * SHARE).status_timeout(SHARE / 4);
    assert!(matches!(patient.claim(&claims[0]).await, Ok(ClaimOutcome::Acquired)));
    let release = async { patient.release(&claims[0].reservation).await };
    let (released, ()) = tokio::join!(timeout(30 * SHARE, release), async { proxy.release() });
    assert!(matches!(released, Ok(Ok(ReleaseOutcome::Released))), "{released:?}");
    assert_free::<S>((&database, &proxy, &pool, &store), &claims).await;
}

/// Its lease would end meanwhile, although it may have taken effect.
pub async fn whose_time_is_not_over_do_not_keep_a_call_from_being_abandoned<S: Stack>() {
    let (_database, proxy, pool, store) = stalled::<S>(1).await;
    let claim = Claim { resource_type: Some("project".to_owned()), ..new_claim() };
    let patient = store.timeout(60 * SHARE).status_timeout(SHARE / 4);
    assert!(matches!(patient.claim(&claim).await, Ok(ClaimOutcome::Acquired)));
    let abandoned = timeout(30 * SHARE, patient.abandon(&claim.reservation)).await;
    assert!(matches!(abandoned, Ok(Ok(AbandonOutcome::Abandoned))), "{abandoned:?}");
    // The late attempt changes nothing.
    proxy.release();
    all_are_back::<S>(&pool).await;
    let again = Claim { reservation: Reservation::new(claim.reservation.owner, claim.reservation.key), ..claim };
    let outcome = patient.claim(&again).await;
    assert!(matches!(outcome, Ok(ClaimOutcome::OutcomeUnknown)), "{outcome:?}");
}

/// The second attempt finds the key held by another call, which then releases it.
pub async fn to_claim_a_key_that_another_call_holds_reserve_nothing<S: Stack>() {
    let (database, proxy, pool, store) = stalled::<S>(1).await;
    let claims = [Claim { resource_type: Some("project".to_owned()), ..new_claim() }];
    let holder = patient::<S>(crate::pool::<S>(&database, 1));
    let Reservation { owner, key, .. } = claims[0].reservation;
    let held = Claim { reservation: Reservation::new(owner, key), ..claims[0].clone() };
    assert!(matches!(holder.claim(&held).await, Ok(ClaimOutcome::Acquired)));
    // On a busy machine the first attempt may still have time when the call has none left.
    let outcome = loop {
        match store.claim(&claims[0]).await {
            Err(error) if error.kind() == StoreErrorKind::Overloaded => {}
            outcome => break outcome.expect("another connection answers"),
        }
    };
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    assert!(matches!(holder.release(&held.reservation).await, Ok(ReleaseOutcome::Released)));
    drop(holder);
    assert_free::<S>((&database, &proxy, &pool, &store), &claims).await;
}

/// An abandoned attempt may hold the key's lock until the server notices that its connection is lost. Here another call holds it.
pub async fn to_begin_a_transaction_do_not_count_as_another_call<S: Stack>() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 1).await;
    let store = store::<S>(pool).timeout(4 * SHARE);
    let begin = async |store: &SqlStore<S::Driver>, claim: &Claim| {
        store.begin(claim, TransactionOptions::default()).await.expect("the store answers")
    };
    let BeginOutcome::Open { transaction, .. } = begin(&store, &new_claim()).await else { panic!("the key is new") };
    transaction.roll_back().await;
    let claim = new_claim();
    let holder = patient::<S>(crate::pool::<S>(&database, 1));
    let BeginOutcome::Open { transaction, .. } = begin(&holder, &claim).await else { panic!("the key is new") };
    let stalled = proxy.ports();
    proxy.stall_connections();

    let owner = database.owner().await;
    let is_asked = "SELECT count(*) FROM pg_stat_activity
                    WHERE client_port = ANY ($1) AND (query LIKE '%idempotency_begin(%' OR query = 'ROLLBACK') AND state LIKE 'idle%'";
    let let_go = async {
        let other = async || -> bool {
            let others: Vec<_> = proxy.ports().difference(&stalled).map(|port| i32::from(*port)).collect();
            owner.query_one(is_asked, &[&others]).await.expect("a count").get::<_, i64>(0) > 0
        };
        until("the connection in its place was told that a call runs", other).await;
        transaction.roll_back().await;
    };
    let again =
        Claim { reservation: Reservation::new(claim.reservation.owner, claim.reservation.key), ..claim.clone() };
    let (begun, ()) = tokio::join!(begin(&store, &again), let_go);
    assert!(matches!(begun, BeginOutcome::Open { .. }), "{begun:?}");
    proxy.release();
}
