//! Transactional mode behind PgBouncer, which keeps a client on one server connection only for a transaction.

use deadpool_postgres::Pool;
use scratch_postgres::{PgBouncer, skip};
use tcp_proxy::{Cut, Moment};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::{Database, Proxy};
use uuid::Uuid;

use crate::{
    connections::assert_clean,
    harness::{Call, Service, all_have_ended, reason, rows},
};

/// More clients than there are server connections.
const CLIENTS: usize = 4 * PgBouncer::SERVER_CONNECTIONS;

/// A database and a pool that reaches it through a PgBouncer; `None` if PgBouncer is missing.
async fn behind_bouncer() -> Option<(Database, PgBouncer, Pool)> {
    if let Some(why) = PgBouncer::missing() {
        skip("pgbouncer", why);
        return None;
    }
    let database = Database::new().await;
    let (bouncer, pool) = database.pool_through_bouncer(CLIENTS).await;
    Some((database, bouncer, pool))
}

#[tokio::test]
async fn a_call_is_committed_replayed_or_rolled_back() {
    let Some((database, _bouncer, pool)) = behind_bouncer().await else { return };
    let owner = database.owner().await;
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let project = call.insert().await?;
        match call.name.as_str() {
            "fail" => Err(Status::not_found("not now")),
            "savepoint" => {
                drop(call.transaction().savepoint().await?);
                Ok(project)
            }
            _ => Ok(project),
        }
    })
    .await;
    assert_eq!(service.create("fail").await.expect_err("it fails").code(), Code::NotFound);
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    let first = service.create("shop").await.expect("a call");
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.project, replay.replayed), (first.project, true));
    assert_eq!(reason(service.create("another shop").await), Reason::KeyReused);
    service.with_key(None).create("shop").await.expect("a call without a key");
    service.with_key(Some(Uuid::new_v4())).create("savepoint").await.expect("a call");
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [3, 3, 2]);
    assert_clean(&pool).await;
}

/// Each call sees its own user's setting, and leaves nothing of it to the next call on the server connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_keep_their_users_apart() {
    let Some((database, _bouncer, pool)) = behind_bouncer().await else { return };
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let look = "SELECT authn.current_user_id()::text";
        let user: String = call.transaction().query_typed_one(look, &[]).await?.get(0);
        if user != call.name {
            return Err(Status::data_loss(format!("expected {}, got {user}", call.name)));
        }
        call.insert().await
    })
    .await;
    let mut calls = JoinSet::new();
    for _ in 0..CLIENTS {
        let user = database.user().await.id;
        let service = Service { user: Some(user), key: Some(Uuid::new_v4()), ..service.clone() };
        calls.spawn(async move {
            for replayed in [false, true, true] {
                let seen = service.create(&user.to_string()).await.expect("a response");
                assert_eq!(seen.replayed, replayed);
            }
        });
    }
    calls.join_all().await;
    let calls = i64::try_from(CLIENTS).expect("a few");
    assert_eq!(rows(&database.owner().await).await, [calls, calls, calls]);
    assert_clean(&pool).await;
}

/// The lock belongs to the transaction, and does not stay on the server connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_duplicates_runs() {
    let Some((database, _bouncer, pool)) = behind_bouncer().await else { return };
    let service = Service::new(&database, pool.clone(), |call: Call| async move { call.insert().await }).await;
    let mut calls = JoinSet::new();
    for _ in 0..CLIENTS {
        let service = service.clone();
        calls.spawn(async move { service.create("shop").await });
    }
    for answer in calls.join_all().await {
        if let Err(status) = answer {
            assert_eq!(Reason::of(&status), Some(Reason::InProgress));
        }
    }
    assert!(service.create("shop").await.expect("a replay").replayed);
    assert_eq!((service.runs(), rows(&database.owner().await).await), (1, [1, 1, 1]));
    assert_clean(&pool).await;
}

/// PgBouncer keeps its client's connection and answers `08P01`, if it loses the server's.
#[tokio::test]
async fn a_commit_that_happened_succeeds_although_pgbouncer_lost_its_answer() {
    let Some((database, _bouncer, proxy, pool)) = behind_bouncer_and_proxy().await else { return };
    let service = Service::new(&database, pool, |call: Call| async move { call.insert().await }).await;
    proxy.cut_later(Cut { all: false, moment: Moment::AfterCommit }, || ());
    let first = service.create("shop").await.expect("it was committed");
    assert_eq!((rows(&database.owner().await).await, first.replayed), ([1, 1, 1], false));
    assert!(service.create("shop").await.expect("a replay").replayed);
    assert_eq!(service.runs(), 1);
}

/// Neither does it say that it happened if it did not.
#[tokio::test]
async fn a_commit_that_did_not_happen_is_refused_after_pgbouncer_lost_its_server() {
    let Some((database, _bouncer, proxy, pool)) = behind_bouncer_and_proxy().await else { return };
    let service = Service::new(&database, pool, |call: Call| async move { call.insert().await }).await;
    proxy.cut_later(Cut { all: false, moment: Moment::BeforeCommit }, || ());
    assert_eq!(reason(service.create("shop").await), Reason::StoreUnavailable);
    assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
    service.create("shop").await.expect("the key is free");
    assert_eq!(service.runs(), 2);
}

async fn behind_bouncer_and_proxy() -> Option<(Database, PgBouncer, Proxy, Pool)> {
    if let Some(why) = PgBouncer::missing() {
        skip("pgbouncer", why);
        return None;
    }
    let database = Database::new().await;
    let (bouncer, proxy, pool) = database.pool_through_bouncer_and_proxy(CLIENTS).await;
    Some((database, bouncer, proxy, pool))
}
