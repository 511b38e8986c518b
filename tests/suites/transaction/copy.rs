//! COPY in the handler's transaction.

use std::{pin::pin, sync::Mutex};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _, TryStreamExt as _};
use tonic_idempotency::store::CopyInSink;
use tonic_types::StatusExt as _;

use crate::prelude::*;

const COPY_IN: &str = "COPY public.labels FROM STDIN";

/// A database with a table that COPY can write. A label `lost` loses a conflict when it is written or read.
async fn database() -> Database {
    let database = Database::new().await;
    let sql = "CREATE TABLE public.labels (label text NOT NULL);
             GRANT ALL ON public.labels TO PUBLIC;
             CREATE FUNCTION public.checked(label text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
                 IF label = 'lost' THEN RAISE EXCEPTION 'lost' USING ERRCODE = 'serialization_failure'; END IF;
                 RETURN label;
             END $$;
             CREATE FUNCTION public.check_label() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM public.checked(NEW.label); RETURN NEW; END $$;
             CREATE TRIGGER check_label BEFORE INSERT ON public.labels
                 FOR EACH ROW EXECUTE FUNCTION public.check_label();";
    database.owner().await.batch_execute(sql).await.expect("the table");
    database
}

/// Copies labels into the table, and returns their number.
async fn copy_in(transaction: &Transaction, labels: &str) -> Result<u64, TransactionError> {
    let mut sink = pin!(transaction.copy_in::<_, Bytes>(COPY_IN).await?);
    for label in labels.split(' ') {
        sink.send(Bytes::from(format!("{label}\n"))).await?;
    }
    sink.finish().await
}

/// Copies labels out of a query, and returns their number.
async fn copy_out(transaction: &Transaction, labels: &str) -> Result<usize, TransactionError> {
    let copy =
        format!("COPY (SELECT public.checked(label) FROM unnest(string_to_array('{labels}', ' ')) label) TO STDOUT");
    let rows: Vec<Bytes> = transaction.copy_out(&copy).await?.try_collect().await?;
    Ok(rows.len())
}

async fn labels(database: &Database) -> i64 {
    database.owner().await.query_one("SELECT count(*) FROM public.labels", &[]).await.expect("the count").get(0)
}

#[tokio::test]
async fn is_committed_with_the_call() {
    let database = database().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        assert_eq!(copy_in(&call.transaction(), "one two three").await?, 3);
        assert_eq!(copy_out(&call.transaction(), "one two three four").await?, 4);
        call.insert().await
    })
    .await;
    service.create("shop").await.expect("a call");
    assert_eq!((labels(&database).await, rows(&database.owner().await).await), (3, [1, 1, 1]));
}

/// A conflict in a COPY ends the call, whatever the handler makes of it.
#[tokio::test]
async fn a_conflict_is_reported_and_not_recorded() {
    let database = database().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, database.pool(2), describe, |call: Call| async move {
        let project = call.insert().await?;
        let (copy, answer) = call.name.split_once(", ").expect("two words");
        let error = match copy {
            "in" => copy_in(&call.transaction(), "one lost").await.expect_err("it loses"),
            _ => copy_out(&call.transaction(), "one lost").await.expect_err("it loses"),
        };
        assert_eq!(error.kind(), TransactionErrorKind::Conflict);
        if answer == "succeeds" { Ok(project) } else { Err(Status::failed_precondition("never")) }
    })
    .await;
    for name in ["in, succeeds", "in, fails for good", "out, succeeds", "out, fails for good"] {
        for key in [service.key, None] {
            let status = service.with_key(key).create(name).await.expect_err("it loses");
            assert_eq!((status.code(), Reason::of(&status)), (Code::Aborted, Some(Reason::Conflict)), "{name}");
            assert!(status.get_details_retry_info().is_some());
            all_have_ended(&owner).await;
            assert_eq!(rows(&owner).await, [0, 0, 0], "{name}");
        }
    }
}

/// The rows after the first are never asked for, and one of them loses.
#[tokio::test]
async fn a_conflict_in_a_stream_that_is_not_read_to_its_end_is_not_recorded() {
    let database = database().await;
    let owner = database.owner().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, database.pool(2), describe, |call: Call| async move {
        let copy = "COPY (SELECT public.checked(CASE WHEN n > 100000 THEN 'lost' ELSE 'one' END)
                          FROM generate_series(1, 100001) n) TO STDOUT";
        let mut stream = pin!(call.transaction().copy_out(copy).await?);
        stream.next().await.expect("a row")?;
        Err(Status::failed_precondition("never"))
    })
    .await;
    assert_eq!(Reason::of(&service.create("shop").await.expect_err("it loses")), Some(Reason::Conflict));
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// A conflict that is rolled back with its savepoint does not fail the call.
#[tokio::test]
async fn a_conflict_in_a_savepoint_that_is_rolled_back_is_ignored() {
    let database = database().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let savepoint = call.transaction().savepoint().await?;
        copy_in(&savepoint, "one lost").await.expect_err("it loses");
        savepoint.roll_back().await?;
        copy_in(&call.transaction(), "two").await?;
        call.insert().await
    })
    .await;
    service.create("shop").await.expect("a call");
    assert_eq!(labels(&database).await, 1);
}

/// The handler has looked at the rows and refuses them: its own decision, which is recorded.
#[tokio::test]
async fn a_sink_that_is_dropped_writes_nothing_and_hides_no_final_error() {
    let database = database().await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, database.pool(2), describe, |call: Call| async move {
        let mut sink = pin!(call.transaction().copy_in::<_, Bytes>(COPY_IN).await?);
        sink.send(Bytes::from("one\n")).await?;
        Err(Status::failed_precondition("never"))
    })
    .await;
    for _ in 0..2 {
        assert_eq!(service.create("shop").await.expect_err("it fails").code(), Code::FailedPrecondition);
    }
    assert_eq!((service.runs(), labels(&database).await), (1, 0));
}

/// Keeps a COPY beyond its call.
type Kept = Arc<Mutex<Option<CopyInSink<Bytes>>>>;

#[tokio::test]
async fn a_sink_is_dead_once_the_call_has_ended() {
    let database = database().await;
    let owner = database.owner().await;
    let kept = Kept::default();
    let keep = Arc::clone(&kept);
    let service = Service::new(&database, database.pool(2), move |call: Call| {
        let keep = Arc::clone(&keep);
        async move {
            let sink = call.transaction().copy_in(COPY_IN).await?;
            *keep.lock().expect("no panic") = Some(sink);
            Err(Status::not_found("not now"))
        }
    })
    .await;
    let call = service.spawn("shop");
    until("the handler has returned", async || kept.lock().expect("no panic").is_some()).await;
    let mut sink = pin!(kept.lock().expect("no panic").take().expect("the sink"));
    let dead = loop {
        // It may be sent while the call is still about to end.
        if let Err(dead) = sink.send(Bytes::from("late\n")).await {
            break dead;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(dead.kind(), TransactionErrorKind::Ended);
    assert_eq!(call.await.expect("no panic").expect_err("it fails").code(), Code::NotFound);
    all_have_ended(&owner).await;
    assert_eq!(labels(&database).await, 0);
}
