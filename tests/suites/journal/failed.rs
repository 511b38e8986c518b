//! Operations that have failed for good: their entries stay in the journal until the application is told, or decides.

use tokio::sync::oneshot;
use tonic::metadata::MetadataMap;
use tonic_idempotency_client::journal::{JournalBuilder, Resumed};
use tower::{ServiceExt as _, service_fn};

use super::prelude::*;
use super::{
    foreign::{Answer, Foreign, is_question},
    harness::{Directory, Setup, in_memory, kept, key, keyed, layer},
};

fn quick() -> JournalBuilder {
    Journal::builder().pauses(Duration::from_millis(1), Duration::from_millis(10))
}

/// The error of a missing grant: the layer says that the call has failed, and records nothing.
fn denied() -> Status {
    Status::with_details_and_metadata(Code::PermissionDenied, "no grant", b"details"[..].into(), freed())
}

/// The handler's own error, after which a call may be made again.
fn away() -> Status {
    Status::with_metadata(Code::Unavailable, "away", freed())
}

fn freed() -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert("idempotency-outcome", "freed".parse().expect("metadata"));
    metadata
}

/// A client whose calls with these keys are in the journal: they found the server away, and their next attempts are
/// denied.
async fn setup(journal: Journal, keys: &[&str]) -> Setup {
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    setup.server.fails(std::iter::repeat_n(away(), keys.len()));
    for key in keys {
        setup.client.create_order(keyed("shop", key)).await.expect_err("the server is away");
    }
    setup.server.seen();
    setup.server.fails(std::iter::repeat_n(denied(), keys.len()));
    setup
}

async fn states(journal: &Journal) -> Vec<EntryState> {
    let entries = journal.entries().await.expect("the entries");
    assert!(entries.iter().all(|entry| entry.state != EntryState::Failed || entry.error.is_some()), "{entries:?}");
    entries.iter().map(|entry| entry.state).collect()
}

#[tokio::test]
async fn stays_with_its_error_over_the_death_of_its_process() {
    let directory = Directory::new();
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let setup = setup(quick().open(directory.file()).expect("a journal"), &["k-1", "k-2"]).await;
    let worker = setup.journal.spawn(setup.service.clone());
    until("both have failed", async || states(&setup.journal).await == [EntryState::Failed; 2]).await;
    worker.shut_down().await;
    assert_eq!(lines.count("a journaled operation has failed"), 2);
    let server = setup.server.clone();
    drop(setup);
    let setup = Setup::new(quick().open(directory.file()).expect("a journal")).await;
    let entries = setup.journal.entries().await.expect("the entries");
    for entry in &entries {
        let error = entry.error.as_ref().expect("its error");
        assert_eq!(
            (error.code(), error.message(), error.details()),
            (Code::PermissionDenied, "no grant", &b"details"[..])
        );
        assert_eq!(entry.state, EntryState::Failed);
    }
    let exported = setup.journal.export().await.expect("an export");
    let error = r#""error":{"code":7,"message":"no grant"}"#;
    assert!(exported.lines().all(|line| line.contains(error) && line.contains(r#""state":"failed""#)), "{exported}");
    assert!(setup.journal.resume(setup.service.clone()).await.is_empty(), "nothing is sent by itself");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn is_sent_again_given_up_or_called_again() {
    let directory = Directory::new();
    let setup = setup(quick().open(directory.file()).expect("a journal"), &["k-1", "k-2", "k-3"]).await;
    for resumed in setup.journal.resume(setup.service.clone()).await {
        assert!(
            matches!(&resumed.outcome, EntryOutcome::Failed(error) if error.code() == Code::PermissionDenied),
            "{resumed:?}"
        );
    }
    setup.server.seen();
    assert_eq!(setup.journal.send_again(&key("k-1")).await.expect("an entry").len(), 1);
    assert_eq!(states(&setup.journal).await, [EntryState::Waiting, EntryState::Failed, EntryState::Failed]);
    let (server, client) = (setup.server.clone(), setup.client.clone());
    drop(setup);
    drop(client);
    // The decisions are durable.
    let mut setup = Setup::with(server, quick().open(directory.file()).expect("a journal"), |layer| layer).await;
    let resumed = setup.journal.resume(setup.service.clone()).await;
    assert!(matches!(&resumed[..], [one] if one.key == key("k-1") && matches!(one.outcome, EntryOutcome::Answered(_))));
    assert!(setup.journal.send_again(&key("k-1")).await.expect("no entry").is_empty());
    setup.client.create_order(keyed("shop", "k-2")).await.expect("the grant is there");
    assert_eq!(setup.keys().await, ["k-3"]);
    let given_up = setup.journal.give_up(&key("k-3")).await.expect("an entry");
    assert!(given_up[0].error.is_some() && setup.keys().await.is_empty());
    assert_eq!(setup.server.seen().iter().filter_map(|seen| seen.key()).collect::<Vec<_>>(), ["k-1", "k-2"]);
}

#[tokio::test]
async fn ends_when_the_application_has_been_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let journal = quick().on_outcome(move |resumed| {
        telling.lock().expect("no panic").push(resumed.key);
        async {}
    });
    let setup = setup(journal.in_memory().expect("a journal"), &["k-1"]).await;
    let _worker = setup.journal.spawn(setup.service.clone());
    until("it has ended", async || setup.keys().await.is_empty()).await;
    assert_eq!(*told.lock().expect("no panic"), [key("k-1")]);
}

/// A client, the outcomes that its application is told, and a resumption of `k-1`, which is sent once the sender is
/// used.
async fn resuming() -> (Setup, Arc<Mutex<Vec<Resumed>>>, oneshot::Sender<()>, tokio::task::JoinHandle<Vec<Resumed>>) {
    let told: Arc<Mutex<Vec<Resumed>>> = Arc::default();
    let telling = Arc::clone(&told);
    let journal = quick().on_outcome(move |resumed| {
        telling.lock().expect("no panic").push(resumed);
        async {}
    });
    let setup = setup(journal.in_memory().expect("a journal"), &["k-1"]).await;
    let (go, gone) = oneshot::channel();
    let (service, gone) = (setup.service.clone(), Arc::new(Mutex::new(Some(gone))));
    let slow = service_fn(move |request| {
        let (service, gone) = (service.clone(), gone.lock().expect("no panic").take());
        async move {
            gone.expect("one attempt").await.expect("the test lives");
            service.oneshot(request).await
        }
    });
    let journal = setup.journal.clone();
    let resumed = tokio::spawn(async move { journal.resume(slow).await });
    until("it is taken", async || states(&setup.journal).await == [EntryState::UnderWay]).await;
    (setup, told, go, resumed)
}

#[tokio::test]
async fn is_left_to_a_caller_who_waits() {
    let (setup, told, go, resumed) = resuming().await;
    // The call gets this answer, and the resumption the one that is left.
    let mut client = setup.client.clone();
    setup.server.answers_first(Answer::Nothing);
    let call = tokio::spawn(async move { client.create_order(keyed("shop", "k-1")).await });
    until("the call is under way", async || setup.server.seen().len() == 1).await;
    go.send(()).expect("it waits");
    let resumed = resumed.await.expect("no panic");
    assert!(matches!(&resumed[..], [one] if matches!(one.outcome, EntryOutcome::Behind)), "{resumed:?}");
    assert!(told.lock().expect("no panic").is_empty());
    assert_eq!(states(&setup.journal).await, [EntryState::UnderWay]);
    call.abort();
    until("the call is dropped", async || states(&setup.journal).await == [EntryState::Waiting]).await;
    let resumed = setup.journal.resume(setup.service.clone()).await;
    assert!(matches!(&resumed[..], [one] if matches!(one.outcome, EntryOutcome::Answered(_))), "{resumed:?}");
}

#[tokio::test]
async fn is_no_failure_of_its_caller_while_the_journal_sends_it() {
    let (mut setup, told, go, resumed) = resuming().await;
    let error = setup.client.create_order(keyed("shop", "k-1")).await.expect_err("no grant");
    assert_eq!((error.code(), kept(&error)), (Code::PermissionDenied, Some(key("k-1"))));
    go.send(()).expect("it waits");
    let resumed = resumed.await.expect("no panic");
    assert!(matches!(&resumed[..], [one] if matches!(one.outcome, EntryOutcome::Answered(_))), "{resumed:?}");
    let left = setup.keys().await.len();
    assert_eq!((told.lock().expect("no panic").len(), left), (1, 0));
}

/// An attempt that was given up may still run, once the key is free again.
#[tokio::test(start_paused = true)]
async fn is_no_failure_until_an_attempt_that_was_given_up_is_over() {
    let answers = Arc::new(Mutex::new(vec![denied(), denied(), Status::unavailable("lost")]));
    let service = service_fn(move |request: http::Request<tonic::body::Body>| {
        let answer = match is_question(&request) {
            true => Status::unimplemented(""),
            false => answers.lock().expect("no panic").pop().expect("an answer"),
        };
        async move { Ok::<_, Status>(answer.into_http::<tonic::body::Body>()) }
    });
    let journal = in_memory(|journal| journal.in_place());
    let service = layer(&journal, |layer| layer.max_attempts(1)).layer(service);
    ShopClient::new(service.clone()).create_order(keyed("shop", "k-1")).await.expect_err("the answer is lost");
    for has_failed in [false, true] {
        let resumed = journal.resume(service.clone()).await;
        assert!(
            matches!(
                (&resumed[0].outcome, has_failed),
                (EntryOutcome::Unresolved(_), false) | (EntryOutcome::Failed(_), true)
            ),
            "{resumed:?}"
        );
        tokio::time::sleep(Duration::from_secs(11)).await;
    }
}
