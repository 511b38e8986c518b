//! [`PostgresStore`] prepares its statements: round trips, stale statements, and the conformance suite if it does not.

use crate::{postgres::On, prelude::*};

conformance_tests!(On(|database: &Database| database.store().prepared_statements(PreparedStatements::Never)));

/// Runs every operation of a reserved call, and calls `ended` with the name of each.
pub(crate) async fn every_operation(store: &PostgresStore, resource: &Resource, mut ended: impl FnMut(&str)) {
    let [first, other, lost] = [(); 3].map(|()| new_claim());
    acquire(store, &first).await;
    ended("claim");
    extend(store, &first, HOUR).await;
    ended("extend");
    let completion = Completion { resource: Some(resource.clone()), ..completion("done") };
    let completed = store.complete(&first.reservation, &completion).await.expect("the store answers");
    assert_eq!(completed, CompleteOutcome::Completed);
    ended("complete");
    let replay = store.claim(&again(&first)).await.expect("the store answers");
    assert!(matches!(replay, ClaimOutcome::Replay(_)), "{replay:?}");
    ended("replay");
    acquire(store, &other).await;
    ended("another claim");
    release(store, &other).await;
    ended("release");
    acquire(store, &lost).await;
    ended("a third claim");
    store.abandon(&lost.reservation).await.expect("the store answers");
    ended("abandon");
    store.status(&first.session, resource).await.expect("the store answers");
    ended("status");
    store.sweep(10).await.expect("the store answers");
    ended("sweep");
}

/// And one more if the connection has not prepared the statement yet, and one to find out that it is the server's own.
#[tokio::test]
async fn takes_one_round_trip_for_each_operation_once_it_is_prepared_or_if_nothing_is() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let (store, parsed) = (patient(pool.clone()), patient(pool.clone()).prepared_statements(PreparedStatements::Never));
    let resource = database.project(None).await;
    drop(pool.get().await.expect("a connection"));
    // The first claim of a store asks for the server's clock: another statement.
    acquire(&parsed, &new_claim()).await;
    for (store, prepared) in [(&parsed, true), (&store, false), (&store, true)] {
        let mut before = proxy.round_trips();
        every_operation(store, &resource, |operation| {
            let trips = proxy.round_trips() - before;
            before += trips;
            let again = ["replay", "another claim", "a third claim"].contains(&operation);
            let expected = match operation {
                _ if prepared || again => 1,
                "claim" => 5,
                _ => 2,
            };
            assert_eq!(trips, expected, "{operation}, prepared before: {prepared}");
        })
        .await;
    }
}

#[tokio::test]
async fn prepares_a_statement_again_if_the_server_has_forgotten_it() {
    let database = Database::new().await;
    let pool = database.pool(1);
    let (store, resource) = (patient(pool.clone()), database.project(None).await);
    every_operation(&store, &resource, |_| {}).await;
    let forget = async || {
        let connection = pool.get().await.expect("a connection");
        connection.batch_execute("DEALLOCATE ALL").await.expect("they are gone");
    };
    forget().await;
    every_operation(&store, &resource, |_| {}).await;
    // The statements prepared again can be forgotten, too.
    forget().await;
    acquire(&store, &new_claim()).await;
}

/// A new version of the crate may replace a function while servers of the old version run.
#[tokio::test]
async fn prepares_a_statement_again_if_its_result_type_changed() {
    let database = Database::new().await;
    let store = patient(database.pool(1));
    let first = new_claim();
    acquire(&store, &first).await;
    let sql = "DO $$ DECLARE
                 v_function CONSTANT text := pg_get_functiondef('tenant.idempotency_claim'::regproc);
             BEGIN
                 DROP PROCEDURE tenant.idempotency_claim;
                 EXECUTE replace(v_function, 'OUT expires_in_ms bigint', 'OUT expires_in_ms integer');
             END $$";
    database.owner().await.batch_execute(sql).await.expect("another version of the function");
    assert_in_flight(&store, &first).await;
    acquire(&store, &new_claim()).await;
}
