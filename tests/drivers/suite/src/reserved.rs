//! Procedures in reserved mode, and stores that cannot be asked.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tokio_postgres::Client;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::{Mode, ProcedureBuilder, StorePolicy},
    rejection::Reason,
    status::OutboxStatus,
    store::{SqlStore, Store as _},
};
use tonic_idempotency_tests::{Database, Proxy, until, uuid_of};
use uuid::Uuid;

use crate::{Call, Service, Stack, assert_clean, patient, pool, pool_through_proxy, reason, store};

/// A service in reserved mode, whose handler answers with this project; or fails, if it is told to; or waits for the gate first.
async fn service<S: Stack>(
    database: &Database,
    store: SqlStore<S::Driver>,
    describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
) -> (Service, Uuid, Arc<Semaphore>) {
    let project = uuid_of(&database.project(Some(OutboxStatus::Pending)).await);
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let describe = |procedure: ProcedureBuilder| describe(procedure.mode(Mode::Reserved));
    let script = move |call: Call<S>| {
        let gate = Arc::clone(&waits);
        async move {
            match call.name.as_str() {
                "fail" => Err(Status::not_found("not now")),
                "fail for good" => Err(Status::failed_precondition("never")),
                "wait" => {
                    gate.acquire().await.expect("it is not closed").forget();
                    Ok(project)
                }
                _ => Ok(project),
            }
        }
    };
    (Service::built(database, store, describe, |builder| builder, script).await, project, gate)
}

async fn records(owner: &Client, condition: &str) -> i64 {
    let select = format!("SELECT count(*) FROM tenant.idempotency_keys WHERE {condition}");
    owner.query_one(&select, &[]).await.expect("the count").get(0)
}

pub async fn a_call_is_reserved_while_it_runs_and_then_recorded_and_replayed<S: Stack>() {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, pool::<S>(&database, 2));
    let (service, project, gate) = service::<S>(&database, patient::<S>(pool.clone()), |procedure| procedure).await;
    let first = service.spawn("wait");
    until("the handler runs", async || service.runs() == 1).await;
    assert_eq!(records(&owner, "response_bytes IS NULL").await, 1);
    assert_eq!(reason(service.create("wait").await), Reason::InProgress);
    assert_eq!(reason(service.create("another shop").await), Reason::KeyReused);
    // No connection is held meanwhile.
    assert_clean::<S>(&pool).await;
    gate.add_permits(1);
    let first = first.await.expect("no panic").expect("the first call");
    assert_eq!((first.project, first.replayed), (project, false));
    assert_eq!(records(&owner, "response_bytes IS NOT NULL").await, 1);
    let replay = service.create("wait").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed, replay.status.as_deref()), (project, true, Some("processing")));
    owner.batch_execute("UPDATE authz.outbox SET status = 'completed'").await.expect("the outbox works");
    let replay = service.create("wait").await.expect("a replay");
    assert_eq!((replay.status.as_deref(), service.runs()), (Some("completed"), 1));
    assert_clean::<S>(&pool).await;
}

pub async fn a_call_renews_its_lease_as_long_as_it_runs<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.lease(Duration::from_secs(3));
    let (service, _, gate) = service::<S>(&database, patient::<S>(pool::<S>(&database, 2)), describe).await;
    let first = service.spawn("wait");
    until("the lease is renewed", async || {
        records(&owner, "lease_expires > created + interval '5 seconds'").await == 1
    })
    .await;
    assert_eq!(reason(service.create("wait").await), Reason::InProgress);
    gate.add_permits(1);
    first.await.expect("no panic").expect("the first call");
    assert_eq!(service.runs(), 1);
}

pub async fn a_call_that_fails_leaves_no_record_and_one_that_fails_for_good_leaves_one<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let (service, ..) = service::<S>(&database, patient::<S>(pool::<S>(&database, 2)), describe).await;
    assert_eq!(service.create("fail").await.expect_err("it fails").code(), Code::NotFound);
    assert_eq!(records(&owner, "true").await, 0);
    for _ in 0..2 {
        let status = service.create("fail for good").await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "never"));
        assert_eq!((records(&owner, "error_bytes IS NOT NULL").await, service.runs()), (1, 2));
    }
}

pub async fn a_record_that_has_expired_is_swept<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let store = patient::<S>(pool::<S>(&database, 2));
    let (service, ..) = service::<S>(&database, store.clone(), |procedure| procedure).await;
    service.create("shop").await.expect("a call");
    service.with_new_key().create("shop").await.expect("a call");
    assert_eq!(store.sweep(10).await.expect("the store answers"), 0);
    let expire =
        "UPDATE tenant.idempotency_keys SET created = now() - interval '2 days', expires = now() - interval '1 day'
                  WHERE idempotency_key = $1";
    owner.execute(expire, &[&service.key]).await.expect("it has expired");
    assert_eq!(store.sweep(10).await.expect("the store answers"), 1);
    assert_eq!(records(&owner, "true").await, 1);
    assert!(!service.create("shop").await.expect("a call").replayed);
}

/// A service on a store that is cut off.
async fn cut_off<S: Stack>(database: &Database, policy: StorePolicy) -> (Service, Proxy, Arc<Semaphore>) {
    let (proxy, pool) = pool_through_proxy::<S>(database, 2).await;
    let store = store::<S>(pool).timeout(Duration::from_secs(4));
    let describe = |procedure: ProcedureBuilder| procedure.on_store_unavailable(policy);
    let (service, _, gate) = service::<S>(database, store, describe).await;
    proxy.cut();
    (service, proxy, gate)
}

pub async fn a_call_without_a_store_is_refused_or_runs_unprotected_if_that_is_the_policy<S: Stack>() {
    for (policy, runs) in [(StorePolicy::Reject, 0), (StorePolicy::Proceed, 1)] {
        let database = Database::new().await;
        let (service, proxy, _) = cut_off::<S>(&database, policy).await;
        let answer = service.create("shop").await;
        match policy {
            StorePolicy::Proceed => assert!(!answer.expect("an unprotected call").replayed),
            _ => assert_eq!(reason(answer), Reason::StoreUnavailable),
        }
        proxy.mend();
        assert!(!service.create("shop").await.expect("the first protected call").replayed);
        assert!(service.create("shop").await.expect("a replay").replayed);
        assert_eq!(service.runs(), runs + 1);
    }
}

/// The handler has run: its client gets the response, and a retry gets the same.
pub async fn an_outcome_that_cannot_be_recorded_is_recorded_later<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (service, proxy, gate) = cut_off::<S>(&database, StorePolicy::Reject).await;
    proxy.mend();
    let first = service.spawn("wait");
    until("the handler runs", async || service.runs() == 1).await;
    proxy.cut();
    gate.add_permits(1);
    let first = first.await.expect("no panic").expect("the response");
    assert_eq!(records(&owner, "response_bytes IS NOT NULL").await, 0);
    proxy.mend();
    until("it is recorded", async || records(&owner, "response_bytes IS NOT NULL").await == 1).await;
    let replay = service.create("wait").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed, service.runs()), (first.project, true, 1));
}
