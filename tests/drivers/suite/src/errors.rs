//! The kinds that the store gives to the errors of the library.

use std::{sync::Arc, time::Duration};

use tonic::{Code, Status};
use tonic_idempotency::{
    policy::ProcedureBuilder,
    rejection::Reason,
    store::{
        Claim, ClaimOutcome, Completion, Reservation, SetupProblem, Store as _, StoreErrorKind, StoredResponse,
        TransactionErrorKind, VerifyError,
    },
};
use tonic_idempotency_tests::{API_ROLE, Database, Proxy};

use crate::{
    Call, PoolOptions, Service, Stack, all_are_back, assert_clean, behind_bouncer, execute_on_one, new_claim, patient,
    pool, pool_at, pool_through, pool_through_proxy, reason, rows, status, store,
};

async fn kind<S: Stack>(url: String) -> StoreErrorKind {
    let store = store::<S>(pool_at::<S>(url, 1, "")).timeout(Duration::from_secs(2));
    store.sweep(1).await.expect_err("no connection").kind()
}

pub async fn of_a_login_are_told_apart<S: Stack>() {
    let database = Database::new().await;
    let (scheme, rest) = database.url().split_once("://").expect("a URL");
    let (login, rest) = rest.rsplit_once('@').expect("a user");
    let (address, name) = rest.split_once('/').expect("the name of a database");
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let password = login.split_once(':').map(|(_, password)| format!(":{password}")).unwrap_or_default();
    assert_eq!(kind::<S>(format!("{scheme}://{login}@{address}/nowhere")).await, StoreErrorKind::Refused);
    assert_eq!(kind::<S>(format!("{scheme}://nobody{password}@{address}/{name}")).await, StoreErrorKind::Refused);
    // Even if the pool of one connection counts the one that it tries to make.
    assert_eq!(kind::<S>(format!("{scheme}://{login}@{host}:1/{name}")).await, StoreErrorKind::Unreachable);
}

/// The server forgets the statements that the connection has prepared.
pub async fn of_stale_statements_are_not_seen<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let store = patient::<S>(pool.clone());
    for forgotten in [false, false, true] {
        if forgotten {
            execute_on_one::<S>(&pool, "DEALLOCATE ALL").await;
        }
        let claimed = store.claim(&new_claim()).await.expect("the store answers");
        assert!(matches!(claimed, ClaimOutcome::Acquired));
    }
    let records = owner.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await.expect("the count");
    assert_eq!(records.get::<_, i64>(0), 3);
}

/// An operation is repeated on another connection. One that falls silent does not hold it up.
pub async fn of_lost_and_silent_connections_are_not_seen<S: Stack>() {
    let ways: [fn(&Proxy); 2] = [Proxy::cut_connections, Proxy::silence_connections];
    for way in ways {
        let database = Database::new().await;
        let (proxy, pool) = pool_through_proxy::<S>(&database, 4).await;
        let store = patient::<S>(pool.clone()).timeout(Duration::from_secs(10));
        store.sweep(1).await.expect("the store answers");
        all_are_back::<S>(&pool).await;
        way(&proxy);
        let claimed = store.claim(&new_claim()).await.expect("the store answers");
        assert!(matches!(claimed, ClaimOutcome::Acquired));
    }
}

/// The role's settings change how the server writes bytes as text.
pub async fn of_texts_are_not_made_by_the_settings_of_the_role<S: Stack>() {
    let database = Database::new().await;
    for is_pooled in [false, true] {
        let pool = S::pool(PoolOptions {
            url: database.url().to_owned(),
            max_connections: 2,
            setup: format!("SET ROLE {API_ROLE}; SET bytea_output = 'escape'"),
            is_pooled,
            is_checked: true,
        });
        let store = patient::<S>(pool);
        let claim = new_claim();
        let claimed = store.claim(&claim).await.expect("the store answers");
        assert!(matches!(claimed, ClaimOutcome::Acquired));
        let message: Vec<u8> = (0..=255).collect();
        let response = StoredResponse::message(message.clone());
        let completion = Completion { response, resource: None, retention: Duration::from_secs(60) };
        store.complete(&claim.reservation, &completion).await.expect("the store answers");
        // The first alone, the others as those whose keys are looked up together.
        for _ in 0..20 {
            let again = Claim {
                reservation: Reservation::new(claim.reservation.owner, claim.reservation.key),
                ..claim.clone()
            };
            let Ok(ClaimOutcome::Replay(replay)) = store.claim(&again).await else { panic!("expected a replay") };
            assert_eq!(replay.response, StoredResponse::message(message.clone()));
        }
    }
}

/// As those of a dblink: the call's connection is not lost.
pub async fn of_another_server_are_refusals_and_leave_the_connection<S: Stack>() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<S>(&database, 1), |call: Call<S>| async move {
        let process = call.select("SELECT pg_backend_pid()::text").await?.expect("a process");
        let away = "DO $$ BEGIN RAISE 'could not establish connection' USING ERRCODE = '08001'; END $$";
        let error = call.execute(away).await.expect_err("another server is away");
        let kind = S::kind(&error);
        Err(Status::new(status(error).code(), format!("{kind:?} {process}")))
    });
    let service = service.await;
    let [first, second] =
        [service.create("shop").await, service.create("shop").await].map(|call| call.expect_err("no call"));
    assert!(first.code() == Code::Internal && first.message().starts_with("Refused "), "{first}");
    assert_eq!(first.message(), second.message(), "the connection is the same");
}

/// Each statement of the check is one of several on its connection, with a transaction that the library does not know of.
pub async fn of_the_set_up_are_found_by_verify<S: Stack>() {
    let database = Database::new().await;
    // These connections log in as a superuser.
    let found = patient::<S>(pool::<S>(&database, 1)).verify().await.expect_err("an exempt role");
    let VerifyError::Problems(problems) = found else { panic!("{found:?}") };
    assert!(matches!(&problems[..], [SetupProblem::ExemptRole { .. }]), "{problems:?}");

    let Some((_database, bouncer)) = behind_bouncer::<S>().await else { return };
    let pool = pool_through::<S>(&bouncer, 1);
    patient::<S>(pool.clone()).verify().await.expect("nothing is wrong");
    assert_clean::<S>(&pool).await;
}

/// The connection of a transaction is lost. The same call may succeed later, whatever its handler makes of the error.
pub async fn of_a_lost_transaction_are_those_of_the_store_whatever_its_handler_says<S: Stack>() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 2).await;
    let proxy = Arc::new(proxy);
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, pool.clone(), describe, move |call: Call<S>| {
        let proxy = Arc::clone(&proxy);
        async move {
            let project = call.insert().await?;
            proxy.cut_connections();
            let lost = call.execute("SELECT 1").await.expect_err("the connection is gone");
            assert_eq!(S::kind(&lost), TransactionErrorKind::Lost);
            match call.name.as_str() {
                "as it is" => Err(status(lost)),
                "final" => Err(Status::failed_precondition("never")),
                "hides" => Err(Status::internal("no")),
                "succeeds" => Ok(project),
                other => panic!("{other}"),
            }
        }
    })
    .await;
    for service in [service.clone(), service.with_key(None)] {
        for name in ["as it is", "final", "hides", "succeeds"] {
            assert_eq!(reason(service.create(name).await), Reason::StoreUnavailable, "{name}: {service:?}");
        }
    }
    assert_eq!((service.runs(), rows(&database.owner().await).await), (8, [0; 3]));
    assert_clean::<S>(&pool).await;
}
