//! Calls whose transaction loses, and which run again.

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
    Call, DEADLOCK, SERIALIZATION_FAILURE, Service, Stack, all_have_ended, assert_clean, handle::late,
    isolation::Answer, names, pool, reason, rows, status,
};

fn serializable(procedure: ProcedureBuilder) -> ProcedureBuilder {
    procedure.isolation(Isolation::Serializable)
}

/// A service whose handler loses in its first runs, as many as `times`, and then inserts a project.
async fn losing<S: Stack>(
    database: &Database,
    pool: S::Pool,
    times: usize,
    statement: &'static str,
    answer: Answer<S>,
) -> Service {
    let runs = Arc::new(AtomicUsize::new(0));
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    Service::with(database, pool, describe, move |call: Call<S>| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            let project = call.insert_as(&format!("run {run}")).await?;
            if run >= times {
                return Ok(project);
            }
            let lost = call.execute(statement).await.expect_err("it loses");
            answer(&call, lost)
        }
    })
    .await
}

/// Each of two calls at once reads what the other writes: one of them loses, in its statement or at COMMIT, and then sees what the other wrote.
pub async fn two_that_each_write_what_the_other_reads_are_both_right<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    for key in [Some(Uuid::new_v4()), None] {
        owner.batch_execute("DELETE FROM tenant.projects").await.expect("no projects");
        let both = Arc::new(Barrier::new(2));
        let service = Service::with(&database, pool::<S>(&database, 8), serializable, move |call: Call<S>| {
            let both = Arc::clone(&both);
            async move {
                let seen = call.select("SELECT count(*)::text FROM tenant.projects").await?.expect("a number");
                if seen == "0" {
                    both.wait().await;
                }
                call.insert_as(&format!("after {seen}")).await
            }
        })
        .await;
        let calls = [(); 2].map(|()| service.with_key(key.map(|_| Uuid::new_v4())).spawn("shop"));
        for call in calls {
            assert!(!call.await.expect("no panic").expect("a response").replayed);
        }
        all_have_ended(&owner).await;
        assert_eq!((names(&owner).await, service.runs()), (vec!["after 0".to_owned(), "after 1".to_owned()], 3));
    }
}

/// Each of two calls at once waits for the other's lock: the server ends the wait of one.
pub async fn two_that_wait_for_each_other_are_both_right<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (both, begun) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let service = Service::new(&database, pool::<S>(&database, 8), move |call: Call<S>| {
        let (both, first_runs) = (Arc::clone(&both), begun.fetch_add(1, Ordering::SeqCst) < 2);
        async move {
            let project = call.insert().await?;
            let (first, second) = if call.name == "one" { (1, 2) } else { (2, 1) };
            let lock =
                async |lock: i32| call.execute(&format!("SELECT pg_advisory_xact_lock({lock})")).await.map_err(status);
            lock(first).await?;
            if first_runs {
                both.wait().await;
            }
            lock(second).await?;
            Ok(project)
        }
    })
    .await;
    let calls = [service.with_new_key().spawn("one"), service.with_new_key().spawn("other")];
    for call in calls {
        assert!(!call.await.expect("no panic").expect("a response").replayed);
    }
    all_have_ended(&owner).await;
    assert_eq!((rows(&owner).await, service.runs()), ([2, 2, 2], 3));
}

/// The handler has succeeded, and its COMMIT is refused, twice.
pub async fn a_conflict_in_the_commit_is_as_one_before<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let refuse = "CREATE SEQUENCE public.commits; GRANT ALL ON SEQUENCE public.commits TO PUBLIC;
        CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('public.commits') IN (1, 2, 4, 5) THEN RAISE EXCEPTION 'lost' USING ERRCODE = 'serialization_failure'; END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON tenant.projects DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION public.lose()";
    owner.batch_execute(refuse).await.expect("the trigger");
    let pool = pool::<S>(&database, 1);
    let service = Service::inserting::<S>(&database, pool.clone()).await;
    for (key, runs) in [(service.key, 3), (None, 6)] {
        service.with_key(key).create("shop").await.expect("the third attempt");
        assert_eq!(service.runs(), runs);
        assert_clean::<S>(&pool).await;
    }
    assert_eq!(rows(&owner).await, [2, 2, 1]);
    assert!(service.create("shop").await.expect("a replay").replayed);
}

/// Its record, its answer and what it has said are those of the attempt that was committed, whatever the lost ones said.
pub async fn a_conflict_that_is_told_or_noticed_is_run_again_whatever_the_handler_answers<S: Stack>() {
    let told: [(&str, Answer<S>); 3] = [
        ("the error itself", |_, lost| Err(status(lost))),
        ("noted, and a final error", |call, lost| {
            S::note(&call.transaction(), &lost);
            Err(Status::failed_precondition("a final error"))
        }),
        ("noted, and a success", |call, lost| {
            S::note(&call.transaction(), &lost);
            Ok(Uuid::nil())
        }),
    ];
    let swallowed: Answer<S> = |_, _| Ok(Uuid::nil());
    for statement in [DEADLOCK, SERIALIZATION_FAILURE] {
        for (answer, make) in told {
            let database = Database::new().await;
            let owner = database.owner().await;
            let pool = pool::<S>(&database, 1);
            let service = losing::<S>(&database, pool.clone(), 2, statement, make).await;
            let seen =
                service.create("shop").await.unwrap_or_else(|status| panic!("{statement}: {answer}: {status:?}"));
            assert!(seen.project != Uuid::nil() && !seen.replayed);
            assert_eq!((service.runs(), names(&owner).await), (3, vec!["run 2".to_owned()]), "{answer}");
            assert_eq!(service.create("shop").await.expect("a replay").project, seen.project);
            assert_clean::<S>(&pool).await;
        }
        let database = Database::new().await;
        let service = losing::<S>(&database, pool::<S>(&database, 1), 1, statement, swallowed).await;
        let answer = service.create("shop").await;
        if S::NOTICED.contains(&statement) {
            assert_eq!((answer.expect("the second attempt").replayed, service.runs()), (false, 2));
        } else {
            assert_eq!((reason(answer), service.runs()), (Reason::NotCommitted, 1));
        }
    }
}

/// Another server has run the call in the pause between two attempts, or has reserved the key for another request.
pub async fn a_key_that_another_call_has_in_the_pause_is_answered_with_its_record<S: Stack>() {
    let database = Database::new().await;
    let owner = Arc::new(database.owner().await);
    for expected in [Ok(()), Err(Reason::KeyReused), Err(Reason::InProgress)] {
        let other = Service::inserting::<S>(&database, pool::<S>(&database, 2)).await;
        let name = if expected == Err(Reason::KeyReused) { "another" } else { "shop" };
        let recorded = other.create(name).await.expect("the call whose record it gets");
        let ours = Uuid::new_v4();
        let (beside, theirs) = (Arc::clone(&owner), other.key.expect("a key"));
        let service = Service::new(&database, pool::<S>(&database, 2), move |call: Call<S>| {
            let beside = Arc::clone(&beside);
            async move {
                call.insert_as("lost").await?;
                let lost = call.execute(DEADLOCK).await.expect_err("it loses");
                // The key of the other call becomes this one's, or is reserved as if its handler ran.
                let take = "UPDATE tenant.idempotency_keys SET idempotency_key = $1 WHERE idempotency_key = $2";
                beside.execute(take, &[&ours, &theirs]).await.expect("the record");
                if expected == Err(Reason::InProgress) {
                    let open = "UPDATE tenant.idempotency_keys SET completed = NULL, response_bytes = NULL, response_metadata = NULL,
                                    project_id = NULL, lease_expires = now() + interval '1 hour' WHERE idempotency_key = $1";
                    beside.execute(open, &[&ours]).await.expect("the reservation");
                }
                Err(status(lost))
            }
        })
        .await;
        let service = service.with_user(other.user).with_key(Some(ours));
        match (service.create("shop").await, expected) {
            (Ok(seen), Ok(())) => assert_eq!((seen.replayed, seen.project), (true, recorded.project)),
            (answer, Err(expected)) => assert_eq!(reason(answer), expected),
            (answer, expected) => panic!("{answer:?}, not {expected:?}"),
        }
        assert_eq!(service.runs(), 1);
    }
    assert!(!names(&owner).await.contains(&"lost".to_owned()));
}

pub async fn are_at_most_ten_and_none_if_the_handler_says_so<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let service =
        losing::<S>(&database, pool.clone(), usize::MAX, SERIALIZATION_FAILURE, |_, lost| Err(status(lost))).await;
    for (key, runs) in [(service.key, 11), (None, 22)] {
        let refused = service.with_key(key).create("shop").await.expect_err("it loses");
        assert_eq!((refused.code(), Reason::of(&refused)), (Code::Aborted, Some(Reason::Conflict)));
        assert!(refused.get_details_retry_info().is_some());
        assert_eq!(service.runs(), runs);
    }
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        call.execution.effect_committed();
        Err(status(call.execute(DEADLOCK).await.expect_err("it loses")))
    })
    .await;
    for (key, runs) in [(service.key, 1), (None, 2)] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::Conflict);
        assert_eq!(service.runs(), runs);
    }
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    assert_clean::<S>(&pool).await;
}

/// A task of the lost attempt must not write into the next one.
pub async fn leave_the_handles_of_lost_attempts_dead<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (sender, mut tasks) = tokio::sync::mpsc::unbounded_channel();
    let pool = pool::<S>(&database, 1);
    let lost = Arc::new(std::sync::Mutex::new(None));
    let service = Service::new(&database, pool.clone(), move |call: Call<S>| {
        let (sender, lost) = (sender.clone(), Arc::clone(&lost));
        async move {
            let before: Option<S::Transaction> = lost.lock().expect("no panic").take();
            let project = call.insert().await?;
            let Some(before) = before else {
                *lost.lock().expect("no panic") = Some(call.transaction());
                return Err(status(call.execute(DEADLOCK).await.expect_err("it loses")));
            };
            sender.send(S::kind(&late::<S>(&before).await)).expect("the test waits");
            Ok(project)
        }
    })
    .await;
    for key in [service.key, None] {
        service.with_key(key).create("shop").await.expect("the second attempt");
        assert_eq!(tasks.recv().await, Some(TransactionErrorKind::Ended));
    }
    assert_eq!(rows(&owner).await, [2, 2, 1]);
    assert_clean::<S>(&pool).await;
}

/// A counter shows the number of calls that succeeded, and few do not.
pub async fn of_many_calls_on_one_row_none_is_lost<S: Stack>() {
    const CALLS: usize = 50;
    let database = Database::new().await;
    let owner = database.owner().await;
    let make = "CREATE TABLE public.counter (n integer NOT NULL); INSERT INTO public.counter VALUES (0); GRANT ALL ON public.counter TO PUBLIC";
    owner.batch_execute(make).await.expect("the counter");
    let service = Service::with(&database, pool::<S>(&database, 8), serializable, |call: Call<S>| async move {
        let n: u32 =
            call.select("SELECT n::text FROM public.counter").await?.expect("a row").parse().expect("a number");
        call.execute(&format!("UPDATE public.counter SET n = {}", n + 1)).await.map_err(status)?;
        call.insert().await
    })
    .await;
    let calls: Vec<_> = (0..CALLS).map(|_| service.with_new_key().spawn("shop")).collect();
    let mut succeeded = 0;
    for call in calls {
        match call.await.expect("no panic") {
            Ok(_) => succeeded += 1,
            refused => assert_eq!(reason(refused), Reason::Conflict),
        }
    }
    all_have_ended(&owner).await;
    let counted: i32 = owner.query_one("SELECT n FROM public.counter", &[]).await.expect("the counter").get(0);
    assert_eq!(i64::from(counted), succeeded);
    assert_eq!(rows(&owner).await, [succeeded; 3]);
    assert!(succeeded > 0);
}
