//! The end of the work behind a call: through replays, or through a server that waits for it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use organization::proto::{CreateProjectRequest, project_service_client::ProjectServiceClient};
use prost_types::Duration as Timeout;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;
use tonic::{Response, async_trait};
use tonic_idempotency_client::{
    PendingWork, Progress, ProgressEvent, Reason, WorkError, completed,
    proto::v1::{
        DescribeProcedureRequest, GetOperationRequest, Operation, Procedure, State, Until, WaitOperationRequest, Work,
        operation_service_server::{OperationService, OperationServiceServer},
    },
};
use tonic_idempotency_tests::shop;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::prelude::*;
use super::{
    foreign::{Answer, Client, Foreign, order},
    process::Process,
};

const SECOND: Duration = Duration::from_secs(1);

/// An answer that tells the status, of the first call or of a replay.
fn told(status: &str, replayed: bool) -> Answer {
    let mut headers = vec![("idempotency-status", status.to_owned())];
    headers.extend(replayed.then(|| ("idempotent-replayed", "true".to_owned())));
    Answer::Headers(headers)
}

/// A call whose work has not ended, and what waits for that.
async fn pending(client: &mut Client) -> PendingWork {
    completed(&client.create_order(order("shop")).await.expect("an order"))
}

/// How the waiting has ended.
fn ended(result: Result<(), WorkError>) -> String {
    match result {
        Ok(()) => "completed".to_owned(),
        Err(WorkError::Failed) => "failed".to_owned(),
        Err(WorkError::Forgotten) => "forgotten".to_owned(),
        Err(WorkError::NoStatus) => "no status".to_owned(),
        Err(WorkError::NotReplayed) => "not replayed".to_owned(),
        Err(WorkError::Refused(status)) => format!("refused: {:?}", status.code()),
        Err(error) => format!("{error:?}"),
    }
}

/// A server whose first answer is that the work has not ended.
async fn foreign() -> (Foreign, Client) {
    let server = Foreign::default();
    server.answers([told("processing", false)]);
    let client = server.client(|layer| layer).await;
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn is_looked_for_with_replays_of_the_same_call_at_growing_intervals() {
    let (server, mut client) = foreign().await;
    let work = pending(&mut client).await.pauses(SECOND, 4 * SECOND);
    server.answers((0..4).map(|_| told("processing", true)));
    server.answers([told("completed", true)]);
    let asked = Instant::now();
    work.await.expect("it is completed");
    // Half of 1 + 2 + 4 + 4 + 4 seconds, to all of it; and one more for the look that finds no `WaitOperation`.
    assert!((Duration::from_secs(7)..Duration::from_secs(20)).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    let seen = server.seen();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|call| call.key() == seen[0].key() && call.message == seen[0].message));
}

#[tokio::test(start_paused = true)]
async fn is_known_at_once_if_the_response_says_so() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer).await;
    server.answers([told("completed", false), told("failed", false), Answer::Headers(Vec::new())]);
    for expected in ["completed", "failed", "no status"] {
        assert_eq!(ended(pending(&mut client).await.await), expected);
    }
    // The layer gives the calls of this procedure no key, so that it cannot ask again.
    server.answers([told("processing", false)]);
    let response = client.get_order(order("shop")).await.expect("an order");
    assert_eq!(ended(completed(&response).await), "no status");
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn is_looked_for_as_late_as_a_busy_server_says() {
    let (server, mut client) = foreign().await;
    let work = pending(&mut client).await;
    let mut busy = Status::unavailable("busy");
    busy.metadata_mut().insert("grpc-retry-pushback-ms", "60000".parse().expect("metadata"));
    server.answers([Answer::Nothing, Answer::Error(Status::unavailable("down")), Answer::Error(busy)]);
    server.answers([told("completed", true)]);
    let mut unanswered = Vec::new();
    let mut progress = work.progress();
    while let Some(step) = progress.next().await {
        if let ProgressEvent::Unanswered { next, status } = step.event {
            unanswered.push((status.code(), next));
        }
    }
    let codes: Vec<Code> = unanswered.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [Code::DeadlineExceeded, Code::Unavailable, Code::Unavailable]);
    assert!((60 * SECOND..67 * SECOND).contains(&unanswered[2].1), "{:?}", unanswered[2]);
}

#[tokio::test(start_paused = true)]
async fn is_told_step_by_step() {
    let (server, mut client) = foreign().await;
    let work = pending(&mut client).await;
    server.answers([told("processing", true), told("completed", true)]);
    let steps: Vec<Progress> = work.progress().collect().await;
    let told: Vec<_> = steps
        .iter()
        .map(|step| match step.event {
            ProgressEvent::Asking { waiting: true } => (step.looks, "wait"),
            ProgressEvent::Asking { waiting: false } => (step.looks, "replay"),
            ProgressEvent::Processing { .. } => (step.looks, "processing"),
            ProgressEvent::Ended(Ok(())) => (step.looks, "completed"),
            _ => (step.looks, "else"),
        })
        .collect();
    let (first, rest) = ((0, "processing"), [(1, "wait"), (1, "processing"), (2, "replay"), (2, "processing")]);
    assert_eq!(told, [&[first][..], &rest, &[(3, "replay"), (3, "completed")]].concat());
    assert!(steps.windows(2).all(|two| two[0].elapsed <= two[1].elapsed));
}

#[tokio::test(start_paused = true)]
async fn is_waited_for_as_long_as_the_caller_says() {
    let (server, mut client) = foreign().await;
    let work = pending(&mut client).await.timeout(20 * SECOND);
    server.answers((0..100).map(|_| told("processing", true)));
    let asked = Instant::now();
    assert!(matches!(work.await, Err(WorkError::TimedOut)));
    let waited = asked.elapsed();
    assert!((19 * SECOND..=20 * SECOND).contains(&waited), "a last look shortly before the end: {waited:?}");
}

/// Zero is a number, too.
#[tokio::test(start_paused = true)]
async fn is_not_looked_for_without_a_pause_if_the_server_says_so() {
    let (server, mut client) = foreign().await;
    let work = pending(&mut client).await.pauses(SECOND, 4 * SECOND).timeout(20 * SECOND);
    let mut metadata = tonic::metadata::MetadataMap::new();
    metadata.insert("grpc-retry-pushback-ms", "0".parse().expect("metadata"));
    server.fails((0..1_000).map(|_| Status::with_metadata(Code::Unavailable, "", metadata.clone())));
    assert!(matches!(work.await, Err(WorkError::TimedOut)));
    let looks = server.seen().len() - 1;
    assert!((10..=21).contains(&looks), "{looks} looks in 20 s");
}

/// A replay would run the call again.
#[tokio::test(start_paused = true)]
async fn is_not_looked_for_when_the_key_expires() {
    for (expires, at_most) in [(Some("60"), 60), (None, 3600)] {
        let server = Foreign::default();
        let mut headers = vec![("idempotency-status", "processing".to_owned())];
        headers.extend(expires.map(|seconds| ("idempotency-expires", seconds.to_owned())));
        server.answers([Answer::Headers(headers)]);
        let mut client = server.client(|layer| layer.attempt_timeout(10 * SECOND)).await;
        let work = pending(&mut client).await;
        server.answers((0..1_000).map(|_| told("processing", true)));
        let asked = Instant::now();
        assert!(matches!(work.await, Err(WorkError::KeyExpires)), "{expires:?}");
        let (waited, end) = (asked.elapsed(), Duration::from_secs(at_most - 10));
        assert!(waited < end && waited + 30 * SECOND > end, "{waited:?} of {end:?}, an attempt before the key expires");
    }
}

#[tokio::test(start_paused = true)]
async fn is_looked_for_longer_if_a_replay_says_that_the_key_lives_longer() {
    let server = Foreign::default();
    let expires = |seconds: &str, replayed| {
        let Answer::Headers(mut headers) = told("processing", replayed) else { panic!("headers") };
        headers.push(("idempotency-expires", seconds.to_owned()));
        Answer::Headers(headers)
    };
    server.answers([expires("60", false)]);
    let mut client = server.client(|layer| layer).await;
    let work = pending(&mut client).await;
    server.answers((0..10).map(|_| expires("60", true)));
    server.answers([told("completed", true)]);
    let asked = Instant::now();
    work.await.expect("it is completed");
    assert!(asked.elapsed() > 60 * SECOND);
}

/// A server that forgot the key, and did not replay, ran the call again: once is too often.
#[tokio::test(start_paused = true)]
async fn is_not_looked_for_again_after_an_answer_that_ends_the_waiting() {
    let details = ErrorDetails::with_error_info(Reason::KeyExpired.as_str(), "tonic-idempotency", []);
    let expired = Status::with_error_details(Code::FailedPrecondition, "", details);
    let expired_token = Status::unauthenticated("the token has expired");
    for (answer, expected) in [
        (told("failed", true), "failed"),
        (told("processing", false), "not replayed"),
        (Answer::Error(expired_token), "refused: Unauthenticated"),
        (Answer::Error(expired), "forgotten"),
    ] {
        let (server, mut client) = foreign().await;
        let work = pending(&mut client).await;
        server.answers([answer]);
        assert_eq!((&*ended(work.await), server.seen().len()), (expected, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn is_not_looked_for_any_more_if_its_future_is_dropped() {
    let (server, mut client) = foreign().await;
    let work = pending(&mut client).await;
    server.answers((0..100).map(|_| told("processing", true)));
    tokio::time::timeout(10 * SECOND, work.clone()).await.expect_err("it does not end");
    let looks = server.seen().len();
    tokio::time::advance(600 * SECOND).await;
    assert!(looks > 1 && server.seen().is_empty());
}

/// An `OperationService` that gives the answer that a test has set.
#[derive(Clone, Default)]
struct Waiting {
    answer: Option<Operation>,
    waits: Arc<AtomicU32>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// The user in the metadata of a call, and its request.
type Asked = (Option<String>, WaitOperationRequest);

#[async_trait]
impl OperationService for Waiting {
    async fn get_operation(&self, _: Request<GetOperationRequest>) -> Result<Response<Operation>, Status> {
        Err(Status::unimplemented("it is not asked"))
    }

    async fn describe_procedure(&self, _: Request<DescribeProcedureRequest>) -> Result<Response<Procedure>, Status> {
        Err(Status::unimplemented("it is not asked"))
    }

    async fn wait_operation(&self, request: Request<WaitOperationRequest>) -> Result<Response<Operation>, Status> {
        let user = request.metadata().get("user").map(|user| user.to_str().expect("text").to_owned());
        self.asked.lock().expect("no panic").push((user, request.into_inner()));
        let waits = self.waits.fetch_add(1, Ordering::SeqCst) + 1;
        match &self.answer {
            Some(operation) => Ok(Response::new(operation.clone())),
            None if waits < 3 => {
                tokio::time::sleep(30 * SECOND).await;
                Ok(Response::new(operation(State::Completed, Work::Processing)))
            }
            None => Ok(Response::new(operation(State::Completed, Work::Completed))),
        }
    }
}

fn operation(state: State, work: Work) -> Operation {
    Operation { state: state.into(), work: work.into(), ..Operation::default() }
}

/// A client of a server whose first answer is that the work has not ended, and which may be asked to wait.
async fn waiting(answer: Option<Operation>) -> (Foreign, Waiting, Client) {
    let (server, waiting) = (Foreign::default(), Waiting { answer, ..Waiting::default() });
    server.answers([told("processing", false)]);
    let routes = server.routes().add_service(OperationServiceServer::new(waiting.clone()));
    let client = Foreign::client_over(shop::serve_in_memory(routes).await, |layer| layer);
    (server, waiting, client)
}

#[tokio::test(start_paused = true)]
async fn is_waited_for_at_a_server_that_can() {
    let (server, waiting, mut client) = waiting(None).await;
    let key = Uuid::now_v7();
    let mut request = shop::with(order("shop"), Some(key), None);
    request.extensions_mut().insert(OperationKey::from(key));
    request.set_timeout(5 * SECOND);
    let response = client.create_order(request).await.expect("an order");
    let asked = Instant::now();
    completed(&response).await.expect("it is completed");
    assert_eq!(waiting.waits.load(Ordering::SeqCst), 3);
    assert!((60 * SECOND..75 * SECOND).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    assert_eq!(server.seen().len(), 1, "nothing is replayed");
    let wait = WaitOperationRequest {
        key: key.to_string(),
        until: Until::WorkEnded.into(),
        timeout: Some(Timeout { seconds: 30, nanos: 0 }),
    };
    assert!(
        waiting.asked.lock().expect("no panic").iter().all(|asked| *asked == (Some(key.to_string()), wait.clone()))
    );
}

#[tokio::test(start_paused = true)]
async fn is_that_of_the_operation() {
    for (state, work, expected) in [
        (State::Completed, Work::Completed, "completed"),
        (State::Completed, Work::Unspecified, "completed"),
        (State::Completed, Work::Failed, "failed"),
        (State::Failed, Work::Unspecified, "failed"),
        (State::Absent, Work::Unspecified, "forgotten"),
        (State::Expired, Work::Unspecified, "forgotten"),
    ] {
        let (server, _, mut client) = waiting(Some(operation(state, work))).await;
        let ended = ended(pending(&mut client).await.await);
        assert_eq!((&*ended, server.seen().len()), (expected, 1), "{state:?} {work:?}");
    }
}

/// A server that lacks the service is asked for it once.
#[tokio::test(start_paused = true)]
async fn is_looked_for_with_replays_if_the_server_cannot_wait() {
    let (server, mut client) = foreign().await;
    for waits in [1, 0] {
        let work = pending(&mut client).await;
        server.answers([told("completed", true), told("processing", false)]);
        let steps: Vec<Progress> = work.progress().collect().await;
        let waited = steps.iter().filter(|step| matches!(step.event, ProgressEvent::Asking { waiting: true }));
        assert_eq!(waited.count(), waits);
        assert!(matches!(steps.last().expect("a step").event, ProgressEvent::Ended(Ok(()))));
    }
}

/// The sample's work is done by its outbox; that of projects with a name such as `fail-shop` fails.
#[tokio::test]
async fn is_that_of_the_sample_on_postgres() {
    let database = scratch_postgres::database(None).await;
    let flags = ["--listen", "127.0.0.1:0", "--outbox-delay", "1s"];
    let mut sample = Process::spawn(Some(database.url()), &flags);
    let ready = sample.ready().await;
    let layer = IdempotencyClientLayer::new(organization::FILE_DESCRIPTOR_SET).expect("the layer");
    let mut projects = ProjectServiceClient::new(layer.layer(shop::channel(ready.address).await));
    for name in ["shop", "fail-shop"] {
        let cluster_id = ready.cluster_id.to_string();
        let mut request =
            Request::new(CreateProjectRequest { cluster_id, name: name.to_owned(), ..Default::default() });
        let token = format!("Bearer {}", ready.tokens.alice);
        request.metadata_mut().insert("authorization", token.parse().expect("metadata"));
        let response = projects.create_project(request).await.expect("a project");
        let work = completed(&response).pauses(Duration::from_millis(10), Duration::from_millis(100));
        let ended = work.timeout(30 * SECOND).await;
        match name {
            "shop" => ended.expect("it is completed"),
            _ => assert!(matches!(ended, Err(WorkError::Failed)), "{ended:?}"),
        }
        let row =
            database.connect().await.query_one("SELECT count(*) FROM tenant.projects WHERE name = $1", &[&name]).await;
        assert_eq!(row.expect("a count").get::<_, i64>(0), 1);
    }
}
