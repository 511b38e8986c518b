//! A call takes effect completely, or not at all.

use tonic::{Code, Status};
use tonic_idempotency::{rejection::Reason, store::TransactionErrorKind};
use tonic_idempotency_tests::Database;
use tonic_types::StatusExt as _;

use crate::harness::{Call, Service, all_have_ended, reason, rows};

#[tokio::test]
async fn a_call_that_succeeds_leaves_its_rows_and_its_record() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move { call.insert().await }).await;

    let first = service.create("shop").await.expect("the first call");
    assert_eq!((first.status.as_deref(), first.replayed), (Some("processing"), false));
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.status.as_deref(), replay.replayed, replay.project), (Some("processing"), true, first.project));

    assert_eq!((service.runs(), rows(&owner).await), (1, [1, 1, 1]));
    let record = "SELECT project_id, user_id, response_bytes IS NOT NULL FROM tenant.idempotency_keys";
    let record = owner.query_one(record, &[]).await.expect("the record");
    assert_eq!((record.get(0), Some(record.get(1)), record.get(2)), (first.project, service.user, true));
    all_have_ended(&owner).await;
}

#[tokio::test]
async fn a_call_that_fails_leaves_nothing() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        call.insert().await?;
        Err(Status::not_found("not now"))
    })
    .await;
    for runs in 1..=2 {
        assert_eq!(service.create("shop").await.expect_err("the handler fails").code(), Code::NotFound);
        all_have_ended(&owner).await;
        assert_eq!((service.runs(), rows(&owner).await), (runs, [0, 0, 0]));
    }
}

/// The rollback comes before the answer.
#[tokio::test]
async fn the_key_of_a_call_that_fails_is_free_when_the_answer_comes() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        call.insert().await?;
        let lose = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$";
        if call.name == "lose" {
            call.transaction().batch_execute(lose).await?;
        }
        Err(Status::not_found("not now"))
    })
    .await;
    for (name, code) in [("fail", Code::NotFound), ("lose", Code::Aborted)] {
        for _ in 0..20 {
            let status = service.create(name).await.expect_err("the handler fails");
            assert_eq!((status.code(), Reason::of(&status) == Some(Reason::InProgress)), (code, false));
        }
    }
    assert_eq!(service.runs(), 40);
}

#[tokio::test]
async fn a_call_that_panics_leaves_nothing() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        call.insert().await?;
        panic!("as it was told");
    })
    .await;
    assert_eq!(service.create("shop").await.expect_err("the handler panics").code(), Code::Internal);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// PostgreSQL answers COMMIT with success after a failed statement, but rolls back.
#[tokio::test]
async fn a_handler_that_ignores_a_failed_statement_does_not_succeed() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let project = call.insert().await?;
        let failed = call.transaction().execute("SELECT 1 / 0", &[]).await.expect_err("a division by zero");
        assert_eq!(failed.kind(), TransactionErrorKind::Refused);
        Ok(project)
    })
    .await;
    assert_eq!(reason(service.create("shop").await), Reason::NotCommitted);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// A constraint that is checked at COMMIT fails after the record was written.
#[tokio::test]
async fn a_commit_that_is_refused_leaves_nothing() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "CREATE FUNCTION tenant.refuse() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'refused at commit'; END $$;
             CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON tenant.projects DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW WHEN (NEW.name = 'refused') EXECUTE FUNCTION tenant.refuse();",
        )
        .await
        .expect("the trigger");
    let service = Service::new(&database, database.pool(1), |call: Call| async move { call.insert().await }).await;
    assert_eq!(reason(service.create("refused").await), Reason::NotCommitted);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    // The only connection is clean, and the key is free.
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

/// A handler that ends the transaction itself would leave its rows without a record.
#[tokio::test]
async fn a_handler_that_ends_the_transaction_does_not_succeed() {
    for (end, left) in [("COMMIT", 1), ("ROLLBACK", 0), ("COMMIT; BEGIN", 1), ("ROLLBACK; BEGIN", 0)] {
        let database = Database::new().await;
        let owner = database.owner().await;
        let service = Service::new(&database, database.pool(2), move |call: Call| async move {
            let project = call.insert().await?;
            call.transaction().batch_execute(end).await?;
            Ok(project)
        })
        .await;
        assert_eq!(reason(service.create("shop").await), Reason::NotCommitted, "{end}");
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [left, left, 0], "{end}");
    }
}

#[tokio::test]
async fn a_final_error_leaves_its_record_and_nothing_else() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe =
        |procedure: tonic_idempotency::policy::ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, database.pool(2), describe, |call: Call| async move {
        call.insert().await?;
        Err(match call.name.as_str() {
            "final" => Status::failed_precondition("never"),
            _ => Status::not_found("not now"),
        })
    })
    .await;
    assert_eq!(service.create("passing").await.expect_err("it fails").code(), Code::NotFound);
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    for _ in 0..2 {
        let status = service.create("final").await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "never"));
        assert_eq!((rows(&owner).await, service.runs()), ([0, 0, 1], 2));
    }
    let replay = service.create("final").await.expect_err("it fails");
    assert_eq!(replay.metadata().get("idempotent-replayed").expect("a replay"), "true");
    all_have_ended(&owner).await;
}

/// Even if the handler fails because of a failed statement: the transaction can only be rolled back to its savepoint.
#[tokio::test]
async fn a_final_error_is_recorded_after_a_failed_statement() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe =
        |procedure: tonic_idempotency::policy::ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, database.pool(2), describe, |call: Call| async move {
        call.insert().await?;
        call.transaction().execute("SELECT 1 / 0", &[]).await.expect_err("a division by zero");
        Err(Status::failed_precondition("never"))
    })
    .await;
    for _ in 0..2 {
        let status = service.create("shop").await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "never"));
    }
    assert_eq!((rows(&owner).await, service.runs()), ([0, 0, 1], 1));
}

/// The response is too large to store: a retry gets the resource's id, and does not create again.
#[tokio::test]
async fn a_response_that_is_not_stored_leaves_its_rows_and_its_record() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let build = |builder: tonic_idempotency::layer::IdempotencyLayerBuilder| builder.max_response_bytes(8);
    let service = Service::built(
        &database,
        database.pool(2),
        |procedure| procedure,
        build,
        |call: Call| async move { call.insert().await },
    )
    .await;
    let first = service.create("shop").await.expect("the first call");
    for _ in 0..2 {
        let status = service.create("shop").await.expect_err("it is not stored");
        assert_eq!(Reason::of(&status), Some(Reason::NotStored));
        let info = status.get_details_error_info().expect("an ErrorInfo");
        assert_eq!(info.metadata.get("resource_id"), Some(&first.project.to_string()));
    }
    assert_eq!((service.runs(), rows(&owner).await), (1, [1, 1, 1]));
}
