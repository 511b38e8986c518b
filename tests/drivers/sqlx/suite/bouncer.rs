//! Transactional mode behind PgBouncer, which keeps a client on one server connection only for a transaction.

use scratch_postgres::{PgBouncer, skip};
use sqlx::{Acquire as _, Executor as _, PgPool};
use tcp_proxy::{Cut, Moment};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::{DisconnectPolicy, ProcedureBuilder},
    rejection::Reason,
};
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::harness::{Call, Service, all_have_ended, assert_clean, pool_through, reason, rows};

/// More clients than there are server connections.
const CLIENTS: u32 = 4 * PgBouncer::SERVER_CONNECTIONS as u32;

/// A database and a pool that reaches it through a PgBouncer; `None` if PgBouncer is missing.
async fn behind_bouncer() -> Option<(Database, PgBouncer, PgPool)> {
    if let Some(why) = PgBouncer::missing() {
        skip("pgbouncer", why);
        return None;
    }
    let database = Database::new().await;
    let (bouncer, _) = database.pool_through_bouncer(1).await;
    let pool = pool_through(&bouncer, CLIENTS);
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
                drop(call.connection().await?.begin().await.map_err(TransactionError::from)?);
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
        let look = sqlx::query_scalar::<_, String>("SELECT authn.current_user_id()::text").persistent(false);
        let user = look.fetch_one(&mut *call.connection().await?).await.map_err(TransactionError::from)?;
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
    let calls = i64::from(CLIENTS);
    assert_eq!(rows(&database.owner().await).await, [calls, calls, calls]);
    assert_clean(&pool).await;
}

/// PgBouncer keeps its client's connection and answers `08P01`, if it loses the server's.
#[tokio::test]
async fn a_commit_whose_answer_pgbouncer_lost_is_looked_up() {
    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    for (moment, happened) in [(Moment::AfterCommit, true), (Moment::BeforeCommit, false)] {
        let database = Database::new().await;
        let (bouncer, proxy, _) = database.pool_through_bouncer_and_proxy(1).await;
        let pool = pool_through(&bouncer, CLIENTS);
        let service = Service::new(&database, pool, |call: Call| async move { call.insert().await }).await;
        proxy.cut_later(Cut { all: false, moment }, || ());
        let first = service.create("shop").await;
        if happened {
            assert!(!first.expect("it was committed").replayed);
        } else {
            assert_eq!(reason(first), Reason::StoreUnavailable);
            assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
        }
        assert_eq!(service.create("shop").await.expect("a response").replayed, happened);
        assert_eq!(rows(&database.owner().await).await, [1, 1, 1]);
    }
}

/// The server process of the transaction is told, not PgBouncer's client.
#[tokio::test]
async fn a_client_that_hangs_up_has_its_statement_cancelled() {
    let Some((database, _bouncer, pool)) = behind_bouncer().await else { return };
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.on_disconnect(DisconnectPolicy::RollBack);
    let service = Service::with(&database, pool.clone(), describe, |call: Call| async move {
        call.insert().await?;
        call.connection().await?.execute("SELECT pg_sleep(3600)").await.map_err(TransactionError::from)?;
        call.insert().await
    })
    .await;
    let call = service.spawn("shop");
    let sleeping =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(3600)'
                    AND state = 'active'";
    let sleeps = async || owner.query_one(sleeping, &[]).await.expect("the activity").get::<_, i64>(0) == 1;
    until("the statement runs", sleeps).await;
    call.abort();
    all_have_ended(&owner).await;
    assert_clean(&pool).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}
