//! A call takes effect completely, or not at all.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use organization::proto::CreateProjectResponse;
use prost::Message as _;
use tokio_postgres::Client;
use tonic::{Code, Status};
use tonic_idempotency::{layer::IdempotencyLayerBuilder, policy::ProcedureBuilder, rejection::Reason};
use tonic_idempotency_tests::Database;
use tonic_types::StatusExt as _;
use uuid::Uuid;

use crate::{
    CREATE_PROJECT, Call, SERIALIZATION_FAILURE, Service, Stack, all_have_ended, assert_clean, patient, pool, reason,
    rows, status,
};

pub async fn a_call_that_succeeds_leaves_its_rows_and_its_record<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::inserting::<S>(&database, pool::<S>(&database, 2)).await;

    let first = service.create("shop").await.expect("the first call");
    assert_eq!((first.status.as_deref(), first.replayed), (Some("processing"), false));
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.status.as_deref(), replay.replayed, replay.project), (Some("processing"), true, first.project));

    assert_eq!((service.runs(), rows(&owner).await), (1, [1, 1, 1]));
    let record = "SELECT project_id, user_id, response_bytes IS NOT NULL FROM tenant.idempotency_keys";
    let record = owner.query_one(record, &[]).await.expect("the record");
    assert_eq!((record.get(0), Some(record.get(1)), record.get(2)), (first.project, service.user, true));
    all_have_ended(&owner).await;
}

pub async fn a_call_that_fails_or_panics_leaves_nothing<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        call.insert().await?;
        match call.name.as_str() {
            "panic" => panic!("as it was told"),
            _ => Err(Status::not_found("not now")),
        }
    })
    .await;
    for (runs, (key, name)) in
        [(service.key, "shop"), (service.key, "shop"), (service.key, "panic"), (None, "shop"), (None, "panic")]
            .into_iter()
            .enumerate()
    {
        let status = service.with_key(key).create(name).await.expect_err("the handler fails");
        match name {
            "shop" => assert_eq!(status.code(), Code::NotFound),
            // Without a key, the panic ends the stream.
            _ => assert!(key.is_none() || status.code() == Code::Internal, "{status:?}"),
        }
        all_have_ended(&owner).await;
        assert_eq!((service.runs(), rows(&owner).await), (runs + 1, [0, 0, 0]));
        assert_clean::<S>(&pool).await;
    }
}

/// Asserts that a handler which succeeds after this, with a key or without one, has its call refused.
async fn assert_not_committed<S: Stack, F>(fails: impl Fn(Call<S>) -> F + Clone + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, pool::<S>(&database, 2), move |call: Call<S>| {
        let fails = fails.clone();
        async move {
            let project = call.insert().await?;
            fails(call).await;
            Ok(project)
        }
    })
    .await;
    for key in [service.key, None] {
        // A driver that has not seen the error may take it for a conflict.
        let reason = reason(service.with_key(key).create("shop").await);
        assert!(matches!(reason, Reason::Conflict | Reason::NotCommitted), "{reason:?}");
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
    }
}

/// PostgreSQL answers COMMIT with success after a failed statement, but rolls back.
pub async fn a_handler_that_ignores_a_failed_statement_does_not_succeed<S: Stack>() {
    assert_not_committed(|call: Call<S>| async move {
        call.execute("SELECT 1 / 0").await.expect_err("a division by zero");
    })
    .await;
}

/// Its error may come out of the next statement, which is the record.
pub async fn a_handler_that_drops_the_future_of_a_statement_that_fails_does_not_succeed<S: Stack>() {
    assert_not_committed(|call: Call<S>| async move {
        let mut connection = call.connection().await.expect("the connection");
        let failing = S::execute(&mut connection, "SELECT 1 / (random() * 0)::int FROM pg_sleep(0.1)");
        assert!(failing.now_or_never().is_none(), "it has an answer to wait for");
    })
    .await;
}

/// A constraint that is checked at COMMIT fails after the record was written.
pub async fn a_commit_that_is_refused_leaves_nothing<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "CREATE FUNCTION tenant.refuse() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'refused at commit'; END $$;
             CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON tenant.projects DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW WHEN (NEW.name = 'refused') EXECUTE FUNCTION tenant.refuse();",
        )
        .await
        .expect("the trigger");
    let service = Service::inserting::<S>(&database, pool::<S>(&database, 1)).await;
    assert_eq!(reason(service.create("refused").await), Reason::NotCommitted);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    // The only connection is clean, and the key is free.
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

/// A retry would fail in the same way, so the client must not try again.
pub async fn a_handler_that_keeps_its_record_from_being_written_is_an_error_and_not_an_outage<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "CREATE FUNCTION tenant.slow() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END $$;
             CREATE TRIGGER slow BEFORE INSERT ON tenant.idempotency_keys FOR EACH ROW EXECUTE FUNCTION tenant.slow();",
        )
        .await
        .expect("the trigger");
    for setting in ["SET TRANSACTION READ ONLY", "SET LOCAL statement_timeout = 10", "SET statement_timeout = 10"] {
        let service = Service::new(&database, pool::<S>(&database, 1), move |call: Call<S>| async move {
            let project = call.insert().await?;
            if call.name == "bug" {
                call.execute(setting).await.map_err(status)?;
            }
            Ok(project)
        })
        .await;
        assert_eq!(reason(service.create("bug").await), Reason::NotCommitted, "{setting}");
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0], "{setting}");
        // The setting has ended with the transaction, and the key is free.
        service.create("shop").await.expect("a call");
        owner
            .batch_execute("TRUNCATE tenant.idempotency_keys, tenant.projects, authz.outbox CASCADE")
            .await
            .expect("none");
    }
}

/// A handler that ends the transaction itself would leave its rows without a record.
pub async fn a_handler_that_ends_the_transaction_does_not_succeed<S: Stack>() {
    for (end, left) in [
        ("COMMIT", 1),
        ("END", 1),
        ("ROLLBACK", 0),
        ("ABORT", 0),
        ("COMMIT; BEGIN", 1),
        ("ROLLBACK; BEGIN", 0),
        ("COMMIT AND CHAIN", 1),
        ("ROLLBACK AND CHAIN", 0),
        ("COMMIT; BEGIN; SAVEPOINT another", 1),
    ] {
        assert_refused::<S>(end, left, true).await;
    }
}

/// There would be a success that has no effect.
pub async fn a_handler_that_ends_the_transaction_does_not_succeed_without_a_key<S: Stack>() {
    for (end, left) in [("COMMIT", 1), ("ROLLBACK", 0)] {
        assert_refused::<S>(end, left, false).await;
    }
}

/// Asserts that the call of a handler that runs this statement is refused. `left` is the number of
/// projects that it leaves.
async fn assert_refused<S: Stack>(end: &'static str, left: i64, has_key: bool) {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), move |call: Call<S>| async move {
        let project = call.insert().await?;
        call.execute(end).await.expect("it ends");
        Ok(project)
    })
    .await;
    let service = if has_key { service } else { service.with_key(None) };
    let refused = service.create("shop").await;
    assert_eq!(refused.as_ref().map_err(Status::code).expect_err(end), Code::Internal);
    assert_eq!(reason(refused), Reason::NotCommitted, "{end}");
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [left, left, 0], "{end}");
    assert_clean::<S>(&pool).await;
}

pub async fn a_final_error_leaves_its_record_and_nothing_else_even_after_a_failed_statement<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, pool::<S>(&database, 2), describe, |call: Call<S>| async move {
        call.insert().await?;
        call.execute("SELECT 1 / 0").await.expect_err("a division by zero");
        Err(match call.name.as_str() {
            "final" => Status::failed_precondition("never"),
            _ => Status::not_found("not now"),
        })
    })
    .await;
    assert_eq!(service.create("passing").await.expect_err("it fails").code(), Code::NotFound);
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    for _ in 0..2 {
        let status = service.create("final").await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "never"));
        assert_eq!((rows(&owner).await, service.runs()), ([0, 0, 1], 2));
    }
    let replay = service.create("final").await.expect_err("it fails");
    assert_eq!(replay.metadata().get("idempotent-replayed").expect("a replay"), "true");
    all_have_ended(&owner).await;
}

/// The rollback comes before the answer.
pub async fn the_key_of_a_call_that_fails_is_free_when_the_answer_comes<S: Stack>() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<S>(&database, 2), |call: Call<S>| async move {
        call.insert().await?;
        if call.name == "lose" {
            call.execution.effect_committed(); // it is not to run again
            call.execute(SERIALIZATION_FAILURE).await.map_err(status)?;
        }
        Err(Status::not_found("not now"))
    })
    .await;
    for (name, code) in [("fail", Code::NotFound), ("lose", Code::Aborted)] {
        for _ in 0..20 {
            let status = service.create(name).await.expect_err("the handler fails");
            assert_eq!((status.code(), Reason::of(&status) == Some(Reason::InProgress)), (code, false));
        }
    }
    assert_eq!(service.runs(), 40);
}

/// The response is too large to store: a retry gets the resource's id, and does not create again.
pub async fn a_response_that_is_not_stored_leaves_its_rows_and_its_record<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let store = patient::<S>(pool::<S>(&database, 2));
    let build = |builder: IdempotencyLayerBuilder| builder.max_response_bytes(8);
    let script = |call: Call<S>| async move { call.insert().await };
    let service = Service::built(&database, store, |procedure| procedure, build, script).await;
    let first = service.create("shop").await.expect("the first call");
    for _ in 0..2 {
        let status = service.create("shop").await.expect_err("it is not stored");
        assert_eq!(Reason::of(&status), Some(Reason::NotStored));
        let info = status.get_details_error_info().expect("an ErrorInfo");
        assert_eq!(info.metadata.get("resource_id"), Some(&first.project.to_string()));
    }
    assert_eq!((service.runs(), rows(&owner).await), (1, [1, 1, 1]));
}

/// A server that does not use the layer reserves the key, or records an outcome, after our claim.
pub async fn a_call_whose_key_another_server_has_taken_meanwhile_leaves_nothing<S: Stack>() {
    for completes in [false, true] {
        let database = Database::new().await;
        let owner = Arc::new(database.owner().await);
        let (server, take) = (Arc::clone(&owner), Arc::new(OnceLock::<String>::new()));
        let taken = Arc::clone(&take);
        let service = Service::new(&database, pool::<S>(&database, 4), move |call: Call<S>| {
            let (server, taken) = (Arc::clone(&server), Arc::clone(&taken));
            async move {
                let project = call.insert().await?;
                server.batch_execute(taken.get().map_or("", |take| take)).await.expect("the other's row");
                Ok(project)
            }
        })
        .await;
        let record = record_of_another_server(&owner, &service, completes).await;
        let other = record.project;
        take.set(record.insert).expect("it is the first");
        let answer = service.create("shop").await;
        if completes {
            let replay = answer.expect("the other's response");
            assert_eq!((replay.project, replay.replayed), (other, true));
        } else {
            assert_eq!(reason(answer), Reason::InProgress);
        }
        assert_eq!(rows(&owner).await, [0, 0, 1], "nothing of ours is left");
    }
}

/// The INSERT of a record by another server, and the project of its response.
struct Record {
    insert: String,
    project: Uuid,
}

/// The row of another server for the service's key and the request `shop`.
async fn record_of_another_server(owner: &Client, service: &Service, completes: bool) -> Record {
    // The hash of the request, from a record of the layer.
    service.with_new_key().create("shop").await.expect("a call");
    let hash = "SELECT encode(request_hash, 'hex') FROM tenant.idempotency_keys";
    let hash: String = owner.query_one(hash, &[]).await.expect("the record").get(0);
    owner.batch_execute("DELETE FROM tenant.idempotency_keys; DELETE FROM tenant.projects").await.expect("clean");
    let (key, user, project) = (service.key.expect("a key"), service.user.expect("a user"), Uuid::new_v4());
    let response = CreateProjectResponse { project_id: project.to_string() }.encode_to_vec();
    let response: String = response.iter().map(|byte| format!("{byte:02x}")).collect();
    let response = if completes { format!("decode('{response}', 'hex')") } else { "NULL".to_owned() };
    let insert = format!(
        "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires, response_bytes)
         VALUES ('{key}', '{user}', '{CREATE_PROJECT}', decode('{hash}', 'hex'), now() + interval '1 day', {response})"
    );
    Record { insert, project }
}
