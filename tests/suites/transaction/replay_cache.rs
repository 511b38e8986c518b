//! Replays of finished calls from memory.

use tonic_idempotency::policy::Mode;
use tonic_idempotency_tests::uuid_of;

use crate::prelude::*;

const FINISH: &str = "INSERT INTO authz.outbox (organization_id, project_id, status)
    SELECT organization_id, id, 'completed' FROM tenant.projects";

#[tokio::test]
async fn replays_of_a_finished_call_take_no_round_trip_in_either_mode() {
    for (mode, first_replay, replay) in [(Mode::Reserved, 1, 1), (Mode::Transactional, 4, 3)] {
        let database = Database::new().await;
        let (proxy, pool) = database.pool_through_proxy(1).await;
        let project = if mode == Mode::Reserved { Some(uuid_of(&database.project(None).await)) } else { None };
        let script = move |call: Call| async move {
            match project {
                Some(project) => Ok(project),
                None => call.insert().await,
            }
        };
        let service = Service::with(&database, pool.clone(), |procedure| procedure.mode(mode), script).await;
        let (mut before, owner) = (0, database.owner().await);
        let mut trips = || {
            let now = proxy.round_trips();
            now - std::mem::replace(&mut before, now)
        };
        let first = service.create("shop").await.expect("a call");
        trips();
        // The asynchronous work is still running at first, and then completes. In transactional mode a
        // ROLLBACK follows the answer, until replays are expected: then there is no transaction, but a look, which is
        // prepared first.
        for (status, expected) in [
            ("processing", first_replay),
            ("processing", replay),
            ("processing", 2),
            ("completed", 1),
            ("completed", 0),
            ("completed", 0),
        ] {
            if status == "completed" && expected > 0 {
                owner.batch_execute(FINISH).await.expect("the outbox works");
            }
            let replay = service.create("shop").await.expect("a replay");
            assert_eq!((replay.project, replay.status.as_deref()), (first.project, Some(status)), "{mode:?}");
            assert!(replay.replayed, "{mode:?}");
            until("the connection is back", async || pool.status().available == 1).await;
            assert_eq!(trips(), expected, "{mode:?}");
        }
        assert_eq!(service.runs(), 1);
    }
}
