//! The order of the record and COMMIT. diesel prepares a statement in a message of its own, before the one that runs it: a COMMIT
//! that is sent without waiting for the record overtakes it on a connection that has not prepared it.

use driver_suite::{Call, Service, all_have_ended, pool, rows};
use tonic::Code;
use tonic_idempotency::policy::ProcedureBuilder;
use tonic_idempotency_tests::Database;

use crate::stack::DeadpoolStack;

#[tokio::test]
async fn follow_the_record_on_a_connection_that_has_not_prepared_it() {
    let database = Database::new().await;
    let owner = database.owner().await;
    for calls in 1..=2 {
        // A new connection.
        let pool = pool::<DeadpoolStack>(&database, 1);
        let script = |call: Call<DeadpoolStack>| async move { call.insert().await };
        let service = Service::new(&database, pool, script).await;
        let first = service.create("shop").await.expect("the record comes before COMMIT");
        assert_eq!(rows(&owner).await, [calls, calls, calls]);
        let replay = service.create("shop").await.expect("a replay");
        assert_eq!((replay.project, replay.replayed), (first.project, true));
    }
}

/// A record that is refused, and that is not prepared before.
#[tokio::test]
async fn do_not_follow_a_record_that_is_refused() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let refuse = "CREATE FUNCTION tenant.refuse() RETURNS trigger LANGUAGE plpgsql AS
                      $$ BEGIN RAISE EXCEPTION 'no record'; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON tenant.idempotency_keys
                      FOR EACH ROW EXECUTE FUNCTION tenant.refuse();";
    owner.batch_execute(refuse).await.expect("the trigger");
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let script = |call: Call<DeadpoolStack>| async move { call.insert().await };
    let service = Service::with(&database, pool::<DeadpoolStack>(&database, 1), describe, script).await;
    assert_eq!(service.create("shop").await.expect_err("no record").code(), Code::Internal);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}
