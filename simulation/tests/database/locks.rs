//! How statements wait for rows that other transactions have written, as in PostgreSQL.

use std::time::Duration;

use simulation::{
    database::{Database, SimulatedStore, Trouble},
    world::{Keeps, World, run},
};
use tokio::{join, time::sleep};
use tonic_idempotency::store::{Claim, ClaimOutcome, CompleteOutcome, ExtendOutcome, Store};
use uuid::Uuid;

use super::trouble::{Server, claim, completion};

/// How long a statement that changes a reservation waits for a lock.
const BRIEFLY: Duration = Duration::from_millis(50);

fn start(world: &World) -> (Database, SimulatedStore) {
    let database = Database::new(world);
    let store = Server::start(world, &database, "server").store;
    (database, store)
}

async fn reserved(store: &SimulatedStore, key: u64) -> Claim {
    let claim = claim(1, key);
    assert!(matches!(store.claim(&claim).await, Ok(ClaimOutcome::Acquired)));
    claim
}

fn id(claim: &Claim) -> (Uuid, Uuid) {
    (*claim.reservation.owner.as_uuid(), *claim.reservation.key.as_uuid())
}

/// Returns how long the lease of a key still runs.
fn lease_left(database: &Database, (owner, key): (Uuid, Uuid)) -> Duration {
    let (record, _, now) = database.row(owner, key).expect("a row");
    record.lease_left(now)
}

async fn complete(store: &SimulatedStore, claim: &Claim) {
    let completed = store.complete(&claim.reservation, &completion()).await.expect("an answer");
    assert_eq!(completed, CompleteOutcome::Completed);
}

#[test]
fn count_a_lease_from_before_they_have_waited() {
    run(1, Keeps::Nothing, |world| async move {
        let (database, store) = start(&world);
        let claim = reserved(&store, 1).await;
        let hold = database.hold(id(&claim).0, id(&claim).1).expect("a lock");
        let waits = async {
            sleep(BRIEFLY / 2).await;
            assert_eq!(hold.waiting(), 1);
            drop(hold);
        };
        let (extended, ()) = join!(store.extend(&claim.reservation, claim.lease), waits);
        assert_eq!(extended.expect("an answer"), ExtendOutcome::Extended);
        assert_eq!(lease_left(&database, id(&claim)), claim.lease - BRIEFLY / 2);
    });
}

/// Completes three calls, of which the last two share a statement, while other transactions have locked the rows of these two and let them go
/// one after the other. Returns what the database was told.
fn complete_together(
    let_go: [Duration; 2],
    look: impl AsyncFnOnce(&Database, [(Uuid, Uuid); 2]) + Send + 'static,
) -> String {
    run(1, Keeps::Lines, move |world| async move {
        let (database, store) = start(&world);
        let claims = [reserved(&store, 1).await, reserved(&store, 2).await, reserved(&store, 3).await];
        let ids = [id(&claims[1]), id(&claims[2])];
        let holds = ids.map(|(owner, key)| database.hold(owner, key).expect("a lock"));
        database.add(Trouble { latency: [Duration::from_millis(1); 2], ..Trouble::NONE });
        let mut gone = holds.into_iter().zip(let_go);
        let letting_go = async {
            for (hold, after) in gone.by_ref() {
                sleep(after).await;
                assert_eq!(hold.waiting(), 1);
                drop(hold);
            }
        };
        let [one, two, three] = claims.each_ref().map(|claim| complete(&store, claim));
        join!(one, two, three, letting_go, look(&database, ids));
        world.trace().lines().join("\n")
    })
}

#[test]
fn wait_for_each_lock_on_its_own() {
    let told = complete_together([BRIEFLY * 4 / 5; 2], async |_, _| {});
    assert!(told.contains("write_many of 0 and 2: written") && !told.contains("55P03"), "{told}");
    let told = complete_together([BRIEFLY * 4 / 5, BRIEFLY * 6 / 5], async |_, _| {});
    assert!(told.contains("write_many of 0 and 2: 55P03"), "{told}");
}

#[test]
fn hold_the_rows_that_they_have_written_while_they_wait_for_another() {
    let told = complete_together([BRIEFLY * 2 / 5; 2], async |database: &Database, [first, second]| {
        sleep(BRIEFLY * 3 / 5).await;
        assert!(database.hold(first.0, first.1).is_none(), "it is written");
        assert!(database.row(first.0, first.1).is_some_and(|(record, ..)| record.outcome.is_none()), "not committed");
        assert!(database.hold(second.0, second.1).is_none(), "it is held");
        sleep(BRIEFLY).await;
        assert!(database.hold(first.0, first.1).is_some_and(|hold| hold.waiting() == 0), "it is let go");
    });
    assert!(told.contains("write_many of 0 and 2: written"), "{told}");
}
