//! A COMMIT whose answer is lost: the layer looks the outcome up, and never guesses.

use std::time::{Duration, Instant};

use http::Extensions;
use tokio_postgres::Client;
use tonic_idempotency::{
    rejection::Reason,
    store::{BeginOutcome, Completion, Store as _, StoreErrorKind, StoredResponse, TransactionOptions},
};
use tonic_idempotency_tests::{Database, Proxy, until};
use uuid::Uuid;

use crate::{Seen, Service, Stack, claim, pool_through_proxy, reason, rows, store};

/// Makes the COMMIT of a project wait for an advisory lock, which the returned client holds.
async fn slow_commits(database: &Database) -> Client {
    let owner = database.owner().await;
    owner
        .batch_execute(
            "CREATE FUNCTION tenant.wait() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON tenant.projects DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION tenant.wait();
             SELECT pg_advisory_lock(42);",
        )
        .await
        .expect("the trigger");
    owner
}

type Outcome = Result<Seen, tonic::Status>;

/// A call whose connection is cut while the server processes its COMMIT.
async fn cut_in_the_commit<S: Stack>(
    database: &Database,
) -> (Service, Client, Proxy, tokio::task::JoinHandle<Outcome>) {
    let owner = slow_commits(database).await;
    let (proxy, pool) = pool_through_proxy::<S>(database, 4).await;
    let service = Service::inserting::<S>(database, pool).await;
    let call = service.spawn("shop");
    until("the COMMIT waits", async || owner.query(WAITING, &[]).await.expect("the locks").len() == 1).await;
    proxy.cut_connections();
    until("it is looked up", async || looked_up(&owner).await).await;
    (service, owner, proxy, call)
}

/// The backends of this database whose COMMITs wait.
const WAITING: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Whether the layer has looked the outcome up.
async fn looked_up(owner: &Client) -> bool {
    let select = "SELECT EXISTS (SELECT FROM pg_stat_activity
                                 WHERE datname = current_database() AND query LIKE '%idempotency_committed%'
                                   AND pid <> pg_backend_pid())";
    owner.query_one(select, &[]).await.expect("the activity").get(0)
}

pub async fn a_call_succeeds_if_the_server_commits_after_all<S: Stack>() {
    let database = Database::new().await;
    let (service, owner, _proxy, call) = cut_in_the_commit::<S>(&database).await;
    assert!(!call.is_finished(), "there is no answer before the outcome is known");
    assert_eq!(reason(service.create("shop").await), Reason::InProgress);
    owner.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("the COMMIT goes on");
    let first = call.await.expect("no panic").expect("it was committed");
    assert!(!first.replayed);
    assert_eq!((rows(&owner).await, service.runs()), ([1, 1, 1], 1));
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed), (first.project, true));
}

/// Without a record, nothing tells whether it was committed.
pub async fn a_call_without_a_key_is_not_run_again<S: Stack>() {
    let database = Database::new().await;
    let owner = slow_commits(&database).await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 4).await;
    let service = Service::inserting::<S>(&database, pool).await.with_key(None);
    let call = service.spawn("shop");
    until("the COMMIT waits", async || owner.query(WAITING, &[]).await.expect("the locks").len() == 1).await;
    proxy.cut_connections();
    assert_eq!(reason(call.await.expect("no panic")), Reason::StoreUnavailable);
    owner.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("the COMMIT goes on");
    until("it is committed after all", async || rows(&owner).await == [1, 1, 0]).await;
    assert_eq!(service.runs(), 1);
}

pub async fn a_call_is_refused_if_the_server_rolls_back<S: Stack>() {
    let database = Database::new().await;
    let (service, owner, _proxy, call) = cut_in_the_commit::<S>(&database).await;
    let kill = format!("SELECT pg_terminate_backend(pid) FROM ({WAITING}) waiting");
    owner.batch_execute(&kill).await.expect("the COMMIT is ended");
    assert_eq!(reason(call.await.expect("no panic")), Reason::StoreUnavailable);
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    owner.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("the next one need not wait");
    service.create("shop").await.expect("the key is free");
    assert_eq!((rows(&owner).await, service.runs()), ([1, 1, 1], 2));
}

/// The look-up ends with the time that the COMMIT has, whenever the database falls silent.
pub async fn a_look_up_does_not_overshoot_its_deadline<S: Stack>() {
    const TIMEOUT: Duration = Duration::from_secs(6);
    let database = Database::new().await;
    let owner = slow_commits(&database).await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 4).await;
    let store = store::<S>(pool).timeout(TIMEOUT);
    let claim = claim(database.user().await.id, Uuid::new_v4());
    let begun = store.begin(&claim, TransactionOptions::default()).await.expect("the store answers");
    let BeginOutcome::Open { transaction, .. } = begun else { panic!("{begun:?}") };
    let mut extensions = Extensions::new();
    transaction.hand_out(&mut extensions);
    let handle = S::transaction(&extensions).expect("a transaction");
    S::insert(&mut S::connection(&handle).await.expect("the connection"), "shop").await.expect("a project");
    let response = StoredResponse::message("done");
    let completion = Completion { response, resource: None, retention: Duration::from_secs(60) };
    let commit = tokio::spawn(async move { transaction.commit(Some(completion)).await });
    until("the COMMIT waits", async || owner.query(WAITING, &[]).await.expect("the locks").len() == 1).await;
    proxy.cut_connections();
    until("it is looked up", async || looked_up(&owner).await).await;
    let looks_up = Instant::now();
    // The look-up loses the database late in its time. With a full timeout for each look, it would take nearly twice as long.
    owner.batch_execute("SELECT pg_sleep(4)").await.expect("a pause");
    proxy.hold();
    let error = commit.await.expect("no panic").expect_err("the outcome is open");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Interrupted, true));
    assert!(looks_up.elapsed() < TIMEOUT + Duration::from_secs(2), "{:?}", looks_up.elapsed());
    proxy.release();
}
