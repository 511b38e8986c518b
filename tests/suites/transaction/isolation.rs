//! Conflicts with other transactions, which the transaction sees by itself.

use tokio::sync::Barrier;
use tonic_idempotency::{policy::Isolation, store::TransactionErrorKind};
use tonic_types::StatusExt as _;

use crate::prelude::*;

/// A statement that loses a deadlock.
const LOSE: &str = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$";

/// Two calls that each read what the other writes: one of them loses.
async fn write_skew(answer: fn(Status) -> Status) {
    let (database, owner) = Database::with_owner().await;
    let both = Arc::new(Barrier::new(2));
    let describe = |procedure: ProcedureBuilder| procedure.isolation(Isolation::Serializable);
    let service = Service::with(&database, database.pool(8), describe, move |call: Call| {
        let both = Arc::clone(&both);
        async move {
            let projects = call.transaction().query("SELECT id FROM tenant.projects", &[]).await?;
            if call.name != "retry" && projects.is_empty() {
                both.wait().await;
            }
            call.insert().await.map_err(answer)
        }
    })
    .await;
    let services = [Some(Uuid::new_v4()), Some(Uuid::new_v4())].map(|key| service.with_key(key));
    let calls = [services[0].spawn("shop"), services[1].spawn("shop")];
    let [one, other] = calls;
    let outcomes = [one.await.expect("no panic"), other.await.expect("no panic")];
    let lost: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let [status] = lost[..] else { panic!("one of two loses: {outcomes:?}") };
    assert_eq!((status.code(), Reason::of(status)), (Code::Aborted, Some(Reason::Conflict)));
    assert!(status.get_details_retry_info().is_some());
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [1, 1, 1]);

    // The same key again.
    for service in services {
        service.create("shop").await.expect("a response");
    }
    assert_eq!(rows(&owner).await, [2, 2, 2]);
}

/// The handler hides that the call can be retried; the layer still reports it.
#[tokio::test]
async fn a_conflict_is_reported_whatever_error_its_handler_returns() {
    write_skew(|_| Status::internal("something is wrong")).await;
}

/// A conflict inside a savepoint does not fail the call if the savepoint is rolled back.
#[tokio::test]
async fn a_deadlock_in_a_savepoint_that_is_rolled_back_is_ignored() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let transaction = call.transaction();
        let savepoint = transaction.savepoint().await?;
        let lost = savepoint.batch_execute(LOSE).await.expect_err("a deadlock");
        assert_eq!(lost.kind(), TransactionErrorKind::Conflict);
        savepoint.roll_back().await?;
        match call.name.as_str() {
            "fail" => Err(Status::not_found("for another reason")),
            _ => call.insert().await,
        }
    })
    .await;
    assert_eq!(service.create("fail").await.expect_err("it fails").code(), Code::NotFound);
    service.create("shop").await.expect("a call");
}

/// Only the rollback of the savepoint in which the conflict happened undoes it.
#[tokio::test]
async fn a_conflict_is_not_forgiven_with_a_savepoint_that_it_did_not_happen_in() {
    let (database, owner) = Database::with_owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let transaction = call.transaction();
        let outer = transaction.savepoint().await?;
        let inner = outer.savepoint().await?;
        outer.commit().await?;
        transaction.batch_execute(LOSE).await.expect_err("it loses");
        drop(inner);
        call.insert().await
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::Conflict);
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
    }
}

/// The first run loses. The handler answers as if it had not, and may not even wait to see it.
async fn lose_first(sees: bool, answer: fn(Uuid) -> Result<Uuid, Status>) {
    let (database, owner) = Database::with_owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, database.pool(2), describe, move |call: Call| async move {
        let project = call.insert().await?;
        if call.name == "lose" {
            let lose = call.transaction();
            let lose = lose.batch_execute(LOSE);
            if sees { drop(lose.await.expect_err("it loses")) } else { drop(lose.now_or_never()) }
        }
        answer(project)
    })
    .await;
    for key in [service.key, None] {
        let status = service.with_key(key).create("lose").await.expect_err("it loses");
        // Without a key, an error that the handler returns is not kept, so nothing has to be known about it.
        if sees || key.is_some() || answer(Uuid::nil()).is_ok() {
            assert_eq!((status.code(), Reason::of(&status)), (Code::Aborted, Some(Reason::Conflict)));
            assert!(status.get_details_retry_info().is_some());
        }
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
    }
    // Neither the key nor the answer is taken.
    let answered = service.create("shop").await;
    assert_eq!(answered.as_ref().err().map(Status::code), answer(Uuid::nil()).err().map(|status| status.code()));
    assert_eq!((rows(&owner).await[2], service.runs()), (1, 3));
}

#[tokio::test]
async fn a_conflict_is_not_recorded_as_a_final_error() {
    lose_first(true, |_| Err(Status::failed_precondition("never"))).await;
}

#[tokio::test]
async fn a_conflict_is_reported_although_its_handler_succeeds() {
    lose_first(true, Ok).await;
}

#[tokio::test]
async fn a_conflict_in_a_statement_whose_future_was_dropped_is_not_recorded_as_a_final_error() {
    lose_first(false, |_| Err(Status::failed_precondition("never"))).await;
}

#[tokio::test]
async fn a_conflict_in_a_statement_whose_future_was_dropped_is_reported_although_its_handler_succeeds() {
    lose_first(false, Ok).await;
}
