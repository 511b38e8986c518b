//! Isolation levels, and conflicts with other transactions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

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

/// The reads and writes of the layer for one do not meet those for another, in an index of keys that are neighbours.
pub async fn serializable_calls_do_not_lose_to_the_layer<S: Stack>() {
    const AT_ONCE: usize = 16;
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.isolation(Isolation::Serializable);
    // Without a key or an index, so that no row of one meets another's. (A foreign key to what the handlers create would be one: that of the
    // record reads the index into which they write.)
    let make = "CREATE TABLE public.own (n integer); GRANT ALL ON public.own TO PUBLIC";
    owner.batch_execute(make).await.expect("a table");
    let created =
        Service::inserting::<S>(&database, pool::<S>(&database, 2)).await.create("shop").await.expect("a call");
    let (all, begun) = (Arc::new(Barrier::new(AT_ONCE)), Arc::new(AtomicUsize::new(0)));
    // A caller has no more than a part of them.
    let service = Service::with(&database, pool::<S>(&database, 2 * AT_ONCE), describe, move |call: Call<S>| {
        let (all, is_first) = (Arc::clone(&all), begun.fetch_add(1, Ordering::SeqCst) < AT_ONCE);
        async move {
            // All of the first round have begun before one of them ends.
            if is_first {
                all.wait().await;
            }
            call.execute("INSERT INTO public.own DEFAULT VALUES").await.map_err(status)?;
            Ok(created.project)
        }
    })
    .await;
    for rounds in 1..=5 {
        let calls: Vec<_> = (0..AT_ONCE)
            .map(|call| {
                // Those of UUIDv7 are neighbours in the index.
                let time = format!("018f0000-{rounds:04x}-7000-8000-{call:012x}");
                service.with_key(Some(time.parse().expect("a UUID"))).spawn("shop")
            })
            .collect();
        for call in calls {
            call.await.expect("no panic").expect("a response");
        }
        assert_eq!(service.runs(), rounds * AT_ONCE, "none of them ran again");
    }
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [1, 1, 81]);
}

/// A prepared statement of the handler is stale. The answer tells its error, and the call runs again; or it hides it, and the driver notices it
/// or not.
pub async fn a_change_of_the_schema_fails_one_attempt_on_each_connection<S: Stack>() {
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
        let (runs, answer) = (service.runs(), create().await);
        let is_noticed = name == "tells" || S::NOTICED.contains(&DEADLOCK);
        if is_noticed {
            answer.unwrap_or_else(|status| panic!("{name}: {status:?}"));
        } else {
            let failed = answer.expect_err("the statement is stale");
            assert!(Reason::of(&failed).is_none() && failed.get_details_retry_info().is_none(), "{name}: {failed:?}");
        }
        assert_eq!(service.runs(), runs + 1 + usize::from(is_noticed));
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
        // It is not to run again.
        call.execution.effect_committed();
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
