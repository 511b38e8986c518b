//! Conflicts with other transactions, which the transaction sees by itself.

use tonic_types::StatusExt as _;

use crate::prelude::*;

/// A statement that loses a deadlock.
const LOSE: &str = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$";

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

/// The first run loses, and its handler does not even wait to see it. It answers as if it had not.
#[tokio::test]
async fn a_conflict_in_a_statement_whose_future_was_dropped_is_reported_whatever_the_handler_answers() {
    let answers: [fn(Uuid) -> Result<Uuid, Status>; 2] = [Ok, |_| Err(Status::failed_precondition("never"))];
    for answer in answers {
        let (database, owner) = Database::with_owner().await;
        let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
        let service = Service::with(&database, database.pool(2), describe, move |call: Call| async move {
            let project = call.insert().await?;
            if call.name == "lose" {
                drop(call.transaction().batch_execute(LOSE).now_or_never());
            }
            answer(project)
        })
        .await;
        for key in [service.key, None] {
            let status = service.with_key(key).create("lose").await.expect_err("it loses");
            // Without a key, an error that the handler returns is not kept, so nothing has to be known about it.
            if key.is_some() || answer(Uuid::nil()).is_ok() {
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
}
