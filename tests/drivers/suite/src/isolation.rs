//! Isolation levels, and conflicts with other transactions.

use std::sync::Arc;

use tokio::sync::Barrier;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::{Isolation, ProcedureBuilder},
    rejection::Reason,
    store::TransactionErrorKind,
};
use tonic_idempotency_tests::Database;
use tonic_types::StatusExt as _;
use uuid::Uuid;

use crate::{
    Call, DEADLOCK, End, NOTES, SERIALIZATION_FAILURE, Service, Stack, Step, all_are_back, all_have_ended, names, pool,
    pool_with, rows, status,
};

pub async fn is_the_procedures_whatever_the_default_of_the_role<S: Stack>() {
    for (isolation, expected) in [
        (Isolation::ReadCommitted, "read committed"),
        (Isolation::RepeatableRead, "repeatable read"),
        (Isolation::Serializable, "serializable"),
    ] {
        let database = Database::new().await;
        let describe = |procedure: ProcedureBuilder| procedure.isolation(isolation);
        // The default must not matter.
        let pool = pool_with::<S>(&database, 2, "SET default_transaction_isolation = 'repeatable read'");
        let service = Service::with(&database, pool, describe, |call: Call<S>| async move {
            let shown = call.select("SELECT current_setting('transaction_isolation')").await?;
            call.insert_as(&shown.unwrap_or_default()).await
        })
        .await;
        for key in [service.key, None] {
            service.with_key(key).create("shop").await.expect("a call");
        }
        assert!(service.create("shop").await.expect("a replay").replayed);
        assert_eq!(names(&database.owner().await).await, [expected, expected]);
    }
}

/// Two calls that each read what the other writes: one of them loses, in its statement or at COMMIT.
pub async fn a_call_that_loses_a_conflict_is_aborted_and_can_be_retried<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let both = Arc::new(Barrier::new(2));
    let describe = |procedure: ProcedureBuilder| procedure.isolation(Isolation::Serializable);
    let service = Service::with(&database, pool::<S>(&database, 8), describe, move |call: Call<S>| {
        let both = Arc::clone(&both);
        async move {
            if call.select("SELECT string_agg(name, ',') FROM tenant.projects").await?.is_none() {
                both.wait().await;
            }
            call.insert().await
        }
    })
    .await;
    let services = [service.with_new_key(), service.with_new_key()];
    let [one, other] = [services[0].spawn("shop"), services[1].spawn("shop")];
    let outcomes = [one.await.expect("no panic"), other.await.expect("no panic")];
    let lost: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let [status] = lost[..] else { panic!("one of two loses: {outcomes:?}") };
    assert_eq!((status.code(), Reason::of(status)), (Code::Aborted, Some(Reason::Conflict)));
    assert!(status.get_details_retry_info().is_some());
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [1, 1, 1]);

    // The same key again.
    for service in services {
        service.create("shop").await.expect("a response");
    }
    assert_eq!(rows(&owner).await, [2, 2, 2]);
}

/// Two calls that each wait for the other's lock: the server ends the wait of one.
pub async fn a_call_that_loses_a_deadlock_is_aborted_and_can_be_retried<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let both = Arc::new(Barrier::new(2));
    let service = Service::new(&database, pool::<S>(&database, 8), move |call: Call<S>| {
        let both = Arc::clone(&both);
        async move {
            let project = call.insert().await?;
            let (first, second) = if call.name == "one" { (1, 2) } else { (2, 1) };
            let lock =
                async |lock: i32| call.execute(&format!("SELECT pg_advisory_xact_lock({lock})")).await.map_err(status);
            if call.name != "again" {
                lock(first).await?;
                both.wait().await;
                lock(second).await?;
            }
            Ok(project)
        }
    })
    .await;
    let services = [service.with_new_key(), service.with_new_key()];
    let [one, other] = [services[0].spawn("one"), services[1].spawn("other")];
    let outcomes = [one.await.expect("no panic"), other.await.expect("no panic")];
    let lost: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let [status] = lost[..] else { panic!("one of two loses: {outcomes:?}") };
    assert_eq!((status.code(), Reason::of(status)), (Code::Aborted, Some(Reason::Conflict)));
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [1, 1, 1]);
    let loser = if outcomes[0].is_err() { &services[0] } else { &services[1] };
    assert!(!loser.create("again").await.expect("the key is free").replayed);
    assert_eq!(rows(&owner).await, [2, 2, 2]);
}

/// A prepared statement of the handler is stale. The answer tells its error, or hides it.
pub async fn a_change_of_the_schema_fails_one_call_on_each_connection<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner.batch_execute(NOTES).await.expect("the table");
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let note = S::read_note(&mut call.connection().await.map_err(status)?).await;
        note.map_err(|error| if call.name == "hides" { Status::internal("no") } else { status(error) })?;
        call.insert().await
    })
    .await;
    let changes = [("text", "tells"), ("varchar", "hides"), ("varchar(9)", "hides"), ("text", "tells")];
    for ((change, name), key) in changes.into_iter().zip([service.key, None].into_iter().cycle()) {
        let create = async || service.with_key(key.map(|_| Uuid::new_v4())).create(name).await;
        create().await.expect("a call");
        owner.batch_execute(&format!("ALTER TABLE public.notes ALTER note TYPE {change}")).await.expect("a change");
        let failed = create().await.expect_err("the statement is stale");
        let is_noticed = name == "tells" || S::NOTICED.contains(&DEADLOCK);
        assert_eq!(Reason::of(&failed), is_noticed.then_some(Reason::Conflict), "{name}: {failed:?}");
        assert_eq!(failed.get_details_retry_info().is_some(), is_noticed);
        all_are_back::<S>(&pool).await;
        create().await.expect("the next call");
        all_are_back::<S>(&pool).await;
    }
}

/// How a handler answers after it has lost.
pub type Answer<S> = fn(&Call<S>, <S as Stack>::Error) -> Result<Uuid, Status>;

/// The reason that the client of a handler gets that has lost by this statement, and answers so: with a key and without one, and
/// with errors that are final.
pub async fn lose<S: Stack>(statement: &'static str, answer: Answer<S>) -> Option<Reason> {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, pool::<S>(&database, 2), describe, move |call: Call<S>| async move {
        call.insert().await?;
        let lost = call.execute(statement).await.expect_err("it loses");
        answer(&call, lost)
    })
    .await;
    let mut reasons = Vec::new();
    for key in [service.key, None] {
        let status = service.with_key(key).create("shop").await.expect_err("it loses");
        let reason = Reason::of(&status);
        if reason == Some(Reason::Conflict) {
            assert_eq!(status.code(), Code::Aborted);
            assert!(status.get_details_retry_info().is_some());
        }
        reasons.push(reason);
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
    }
    assert_eq!(reasons[0], reasons[1], "with a key as without");
    reasons[0]
}

/// A driver that does not notice a conflict by itself learns of it from the handler, or knows only that the transaction has failed.
pub async fn a_conflict_that_is_told_or_noticed_is_reported_and_never_committed<S: Stack>() {
    let told: [(&str, Answer<S>); 5] = [
        ("the error itself", |_, lost| {
            assert_eq!(S::kind(&lost), TransactionErrorKind::Conflict);
            Err(status(lost))
        }),
        ("the source of a final error", |_, lost| {
            let mut status = Status::failed_precondition("a final error");
            status.set_source(Arc::new(lost));
            Err(status)
        }),
        ("noted, and hidden", |call, lost| {
            S::note(&call.transaction(), &lost);
            Err(Status::internal("something is wrong"))
        }),
        ("noted, and a final error", |call, lost| {
            S::note(&call.transaction(), &lost);
            Err(Status::failed_precondition("a final error"))
        }),
        ("noted, and a success", |call, lost| {
            S::note(&call.transaction(), &lost);
            Ok(Uuid::nil())
        }),
    ];
    let hidden: [(&str, Answer<S>); 2] = [
        ("hidden", |_, _| Err(Status::internal("something is wrong"))),
        ("hidden behind a final error", |_, _| Err(Status::failed_precondition("a final error"))),
    ];
    for statement in [DEADLOCK, SERIALIZATION_FAILURE] {
        let is_noticed = S::NOTICED.contains(&statement);
        for (answer, make) in told.into_iter().chain(hidden.into_iter().filter(|_| is_noticed)) {
            assert_eq!(lose(statement, make).await, Some(Reason::Conflict), "{statement}: {answer}");
        }
        let swallowed = if is_noticed { Reason::Conflict } else { Reason::NotCommitted };
        assert_eq!(lose::<S>(statement, |_, _| Ok(Uuid::nil())).await, Some(swallowed), "{statement}");
    }
}

pub async fn another_error_is_not_taken_for_a_conflict<S: Stack>() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<S>(&database, 2), |call: Call<S>| async move {
        let failed = call.execute("SELECT 1 / 0").await.expect_err("a division by zero");
        S::note(&call.transaction(), &failed);
        assert_eq!(S::kind(&failed), TransactionErrorKind::Refused);
        Err(status(failed))
    })
    .await;
    let status = service.create("shop").await.expect_err("it fails");
    assert_eq!(
        (status.code(), Reason::of(&status), status.message()),
        (Code::Internal, None, "internal database error")
    );
}

/// A conflict in a nested transaction does not fail the call if the nested transaction is rolled back.
pub async fn a_deadlock_in_a_savepoint_that_is_rolled_back_is_ignored<S: Stack>() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<S>(&database, 2), |call: Call<S>| async move {
        call.nested(&[Step::Lose], End::RollBack).await.map_err(status)?;
        if call.name == "fail" { Err(Status::not_found("for another reason")) } else { call.insert().await }
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(service.with_key(key).create("fail").await.expect_err("it fails").code(), Code::NotFound);
        service.with_key(key).create("shop").await.expect("a call");
    }
    assert_eq!(rows(&database.owner().await).await, [2, 2, 1]);
}
