//! Transactional mode behind PgBouncer, which keeps a client on one server connection only for a transaction.

use scratch_postgres::PgBouncer;
use tcp_proxy::{Cut, Moment};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::{DisconnectPolicy, ProcedureBuilder},
    rejection::Reason,
};
use tonic_idempotency_tests::Database;

use crate::{
    Call, End, Service, Stack, all_have_ended, assert_clean, behind_bouncer, bouncer_settings, pool_through, reason,
    rows, status, until_statement,
};

/// More clients than there are server connections.
const CLIENTS: usize = 4 * PgBouncer::SERVER_CONNECTIONS;

pub async fn a_call_is_committed_replayed_or_rolled_back<S: Stack>() {
    let Some((database, bouncer)) = behind_bouncer::<S>().await else { return };
    let (owner, pool) = (database.owner().await, pool_through::<S>(&bouncer, CLIENTS));
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let project = call.insert().await?;
        match call.name.as_str() {
            "fail" => Err(Status::not_found("not now")),
            "savepoint" => {
                call.nested(&[], End::RollBack).await.map_err(status)?;
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
    service.with_new_key().create("savepoint").await.expect("a call");
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [3, 3, 2]);
    assert_clean::<S>(&pool).await;
}

/// Each call sees its own user's setting, and leaves nothing of it to the next call on the server connection.
pub async fn many_at_once_keep_their_users_apart<S: Stack>() {
    let Some((database, bouncer)) = behind_bouncer::<S>().await else { return };
    let pool = pool_through::<S>(&bouncer, CLIENTS);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let user = call.select("SELECT authn.current_user_id()::text").await?;
        if user.as_deref() != Some(&*call.name) {
            return Err(Status::data_loss(format!("expected {}, got {user:?}", call.name)));
        }
        call.insert().await
    })
    .await;
    let mut calls = JoinSet::new();
    for _ in 0..CLIENTS {
        let user = database.user().await.id;
        let service = service.with_user(Some(user)).with_new_key();
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
    assert_clean::<S>(&pool).await;
}

/// PgBouncer answers `08P01` if it loses the server's connection, and ends that of its client.
pub async fn a_commit_whose_answer_pgbouncer_lost_is_looked_up<S: Stack>() {
    let Some(settings) = bouncer_settings::<S>() else { return };
    for (moment, happened) in [(Moment::AfterCommit, true), (Moment::BeforeCommit, false)] {
        let database = Database::new().await;
        let (bouncer, proxy) = database.behind_bouncer_and_proxy(settings).await;
        let pool = pool_through::<S>(&bouncer, CLIENTS);
        let service = Service::inserting::<S>(&database, pool).await;
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

/// The request to cancel goes to the server process of the transaction, not to PgBouncer's client.
pub async fn a_client_that_hangs_up_has_its_statement_cancelled<S: Stack>() {
    let Some((database, bouncer)) = behind_bouncer::<S>().await else { return };
    let (owner, pool) = (database.owner().await, pool_through::<S>(&bouncer, CLIENTS));
    let describe = |procedure: ProcedureBuilder| procedure.on_disconnect(DisconnectPolicy::RollBack);
    let store = crate::store::<S>(pool.clone()).timeout(std::time::Duration::from_secs(2));
    let service = Service::built(
        &database,
        store,
        describe,
        |builder| builder,
        |call: Call<S>| async move {
            call.insert().await?;
            call.execute("SELECT pg_sleep(3600)").await.map_err(status)?;
            call.insert().await
        },
    )
    .await;
    let call = service.spawn("shop");
    until_statement(&owner, "SELECT pg_sleep(3600)", &["active"]).await;
    call.abort();
    all_have_ended(&owner).await;
    assert_clean::<S>(&pool).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// The lock belongs to the transaction, and does not stay on the server connection.
pub async fn one_of_many_duplicates_runs<S: Stack>() {
    let Some((database, bouncer)) = behind_bouncer::<S>().await else { return };
    let pool = pool_through::<S>(&bouncer, CLIENTS);
    let service = Service::inserting::<S>(&database, pool.clone()).await;
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
    assert_clean::<S>(&pool).await;
}
