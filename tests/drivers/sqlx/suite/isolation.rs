//! Isolation levels, and conflicts with other transactions.

use std::sync::Arc;

use sqlx::{Acquire as _, Executor as _};
use tokio::sync::Barrier;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::{Isolation, ProcedureBuilder},
    rejection::Reason,
    store::TransactionErrorKind,
};
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;
use tonic_types::StatusExt as _;
use uuid::Uuid;

use crate::harness::{Call, LOSE, Service, all_have_ended, insert, names, pool, pool_through_proxy, pool_with, rows};

#[tokio::test]
async fn is_the_procedures_whatever_the_default_of_the_role() {
    for (isolation, expected) in [
        (Isolation::ReadCommitted, "read committed"),
        (Isolation::RepeatableRead, "repeatable read"),
        (Isolation::Serializable, "serializable"),
    ] {
        let database = Database::new().await;
        let describe = |procedure: ProcedureBuilder| procedure.isolation(isolation);
        // The default must not matter.
        let pool = pool_with(&database, 2, "SET default_transaction_isolation = 'repeatable read'");
        let service = Service::with(&database, pool, describe, |call: Call| async move {
            let mut connection = call.connection().await?;
            let shown = sqlx::query_scalar("SHOW transaction_isolation").fetch_one(&mut *connection).await;
            let shown: String = shown.map_err(TransactionError::from)?;
            Ok(insert(&mut connection, &shown).await?)
        })
        .await;
        for key in [service.key, None] {
            service.with_key(key).create("shop").await.expect("a call");
        }
        assert!(service.create("shop").await.expect("a replay").replayed);
        assert_eq!(names(&database.owner().await).await, [expected, expected]);
    }
}

/// Two calls that each read what the other writes: one of them loses, in its statement or at COMMIT.
#[tokio::test]
async fn a_call_that_loses_a_conflict_is_aborted_and_can_be_retried() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let both = Arc::new(Barrier::new(2));
    let describe = |procedure: ProcedureBuilder| procedure.isolation(Isolation::Serializable);
    let service = Service::with(&database, pool(&database, 8), describe, move |call: Call| {
        let both = Arc::clone(&both);
        async move {
            let projects =
                sqlx::query("SELECT id FROM tenant.projects").fetch_all(&mut *call.connection().await?).await;
            if projects.map_err(TransactionError::from)?.is_empty() {
                both.wait().await;
            }
            call.insert().await
        }
    })
    .await;
    let services = [Some(Uuid::new_v4()), Some(Uuid::new_v4())].map(|key| service.with_key(key));
    let [one, other] = [services[0].spawn("shop"), services[1].spawn("shop")];
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

/// How a handler answers after it has lost.
type Answer = fn(&Call, sqlx::Error) -> Result<Uuid, Status>;

/// The reason that the client gets.
async fn lose(answer: Answer) -> Result<(), Reason> {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, pool(&database, 2), describe, move |call: Call| async move {
        call.insert().await?;
        let lost = call.connection().await?.execute(LOSE).await.expect_err("it loses");
        answer(&call, lost)
    })
    .await;
    let mut reasons = Vec::new();
    for key in [service.key, None] {
        let status = service.with_key(key).create("shop").await.expect_err("it loses");
        reasons.push(Reason::of(&status));
        if reasons.contains(&Some(Reason::Conflict)) {
            assert_eq!(status.code(), Code::Aborted);
            assert!(status.get_details_retry_info().is_some());
        }
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await[..2], [0, 0]);
    }
    assert_eq!(reasons[0], reasons[1], "with a key as without");
    reasons[0].map_or(Ok(()), Err)
}

#[tokio::test]
async fn a_conflict_is_reported_if_the_answer_has_it_as_its_source() {
    let answers: [Answer; 3] = [
        |_, lost| Err(TransactionError::from(lost).into()),
        |_, lost| Err(Status::from_error(Box::new(lost))),
        |_, lost| {
            let mut status = Status::failed_precondition("a final error");
            status.set_source(Arc::new(TransactionError::from(lost)));
            Err(status)
        },
    ];
    for answer in answers {
        assert_eq!(lose(answer).await, Err(Reason::Conflict));
    }
}

#[tokio::test]
async fn a_conflict_is_reported_if_the_handler_notes_it_whatever_it_answers() {
    let answers: [Answer; 3] = [
        |call, lost| {
            call.transaction().note(&lost);
            Err(Status::internal("something is wrong"))
        },
        |call, lost| {
            call.transaction().note(&lost);
            Err(Status::failed_precondition("a final error"))
        },
        |call, lost| {
            call.transaction().note(&lost);
            Ok(Uuid::nil())
        },
    ];
    for answer in answers {
        assert_eq!(lose(answer).await, Err(Reason::Conflict));
    }
}

/// sqlx does not tell: the transaction has failed, and nothing says why.
#[tokio::test]
async fn a_conflict_that_the_handler_swallows_is_refused_and_not_committed() {
    assert_eq!(lose(|_, _| Ok(Uuid::nil())).await, Err(Reason::NotCommitted));
}

#[tokio::test]
async fn another_error_is_not_taken_for_a_conflict() {
    let database = Database::new().await;
    let service = Service::new(&database, pool(&database, 2), |call: Call| async move {
        let failed = call.connection().await?.execute("SELECT 1 / 0").await.expect_err("a division by zero");
        call.transaction().note(&failed);
        let failed = TransactionError::from(failed);
        assert_eq!((failed.kind(), failed.code()), (TransactionErrorKind::Refused, Some("22012")));
        Err(failed.into())
    })
    .await;
    let status = service.create("shop").await.expect_err("it fails");
    assert_eq!(
        (status.code(), Reason::of(&status), status.message()),
        (Code::Internal, None, "internal database error")
    );
}

/// A conflict inside a savepoint does not fail the call if the savepoint is rolled back.
#[tokio::test]
async fn a_deadlock_in_a_savepoint_that_is_rolled_back_is_ignored() {
    let database = Database::new().await;
    let service = Service::new(&database, pool(&database, 2), |call: Call| async move {
        let mut connection = call.connection().await?;
        let mut savepoint = connection.begin().await.map_err(TransactionError::from)?;
        savepoint.execute(LOSE).await.expect_err("a deadlock");
        savepoint.rollback().await.map_err(TransactionError::from)?;
        Ok(insert(&mut connection, &call.name).await?)
    })
    .await;
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&database.owner().await).await, [1, 1, 1]);
}

#[tokio::test]
async fn a_lost_connection_is_told_from_a_conflict() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy(&database, 2).await;
    let proxy = Arc::new(proxy);
    let service = Service::new(&database, pool, move |call: Call| {
        let proxy = Arc::clone(&proxy);
        async move {
            let mut connection = call.connection().await?;
            proxy.cut_connections();
            let lost = connection.execute("SELECT 1").await.expect_err("the connection is gone");
            let lost = TransactionError::from(lost);
            assert_eq!(lost.kind(), TransactionErrorKind::Lost);
            Err(lost.into())
        }
    })
    .await;
    let status = service.create("shop").await.expect_err("it is lost");
    assert_eq!((status.code(), Reason::of(&status)), (Code::Unavailable, None));
}
