//! Transactions of diesel inside of the call's that have not ended as they should: the call is refused.

use driver_suite::{Call, End, Service, Step, all_have_ended, assert_clean, pool, reason, rows, status};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::Database;

use crate::stack::DeadpoolStack;

/// Asserts that a handler that takes these steps and answers with success is refused.
async fn assert_refused(steps: fn() -> Vec<Step>, end: End) {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, pool::<DeadpoolStack>(&database, 1));
    let service = Service::new(&database, pool.clone(), move |call: Call<DeadpoolStack>| async move {
        let project = call.insert().await?;
        let nested = call.nested(&steps(), end).await;
        assert_eq!(nested.is_err(), steps().contains(&Step::Fail));
        Ok(project)
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::NotCommitted);
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
        assert_clean::<DeadpoolStack>(&pool).await;
    }
}

#[tokio::test]
async fn whose_futures_are_dropped_have_the_call_refused() {
    assert_refused(|| vec![Step::Insert("dropped".to_owned())], End::Drop).await;
    // diesel reports that the outer one was kept.
    let nested = || vec![Step::Insert("outer".to_owned()), Step::Nested(vec![], End::Drop)];
    assert_refused(nested, End::Commit).await;
}

/// diesel does not roll back to the savepoint of a transaction whose end has failed.
#[tokio::test]
async fn that_have_failed_and_say_otherwise_have_the_call_refused() {
    assert_refused(|| vec![Step::Fail], End::Commit).await;
}

/// A rollback to the savepoint of the layer ends them, too.
#[tokio::test]
async fn whose_futures_are_dropped_do_not_keep_a_final_error_from_its_record() {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, pool::<DeadpoolStack>(&database, 1));
    let describe = |procedure: tonic_idempotency::policy::ProcedureBuilder| {
        procedure.final_errors([tonic::Code::FailedPrecondition])
    };
    let service = Service::with(&database, pool.clone(), describe, |call: Call<DeadpoolStack>| async move {
        call.nested(&[Step::Insert("dropped".to_owned())], End::Drop).await.map_err(status)?;
        Err(tonic::Status::failed_precondition("never"))
    })
    .await;
    for _ in 0..2 {
        let error = service.create("shop").await.expect_err("it fails");
        assert_eq!(error.code(), tonic::Code::FailedPrecondition);
        assert_eq!((rows(&owner).await, service.runs()), ([0, 0, 1], 1));
        assert_clean::<DeadpoolStack>(&pool).await;
    }
}
