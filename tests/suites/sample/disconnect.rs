//! Clients that disconnect during a call.

use std::{process::Stdio, time::Duration};

use organization::proto::{CreateProjectRequest, project_service_client::ProjectServiceClient};
use tonic::{Code, Request, transport::Channel};
use uuid::Uuid;

use super::{
    eventually::eventually,
    subject::{NEVER, Sample},
};

/// The two modes: a disconnected client makes no difference to the handler's writes or to the record in either.
const MODES: [&str; 2] = ["reserved", "transactional"];

/// The number of transactions that wait for their handlers: those of the recovery, at the server's start, do not wait as long.
async fn open(sample: &Sample) -> i64 {
    let select = "SELECT count(*) FROM pg_stat_activity \
                  WHERE datname = current_database() AND state = 'idle in transaction' \
                    AND clock_timestamp() - state_change > interval '0.5 s'";
    sample.client.query_one(select, &[]).await.expect("a count").get(0)
}

/// Waits until the first call with this key is running.
async fn running(sample: &Sample, key: Uuid) {
    eventually("the handler waits", || async { (open(sample).await == 1).then_some(()) }).await;
    assert_ne!(sample.completed(key).await, Some(true), "the handler ended before its client hung up");
}

/// Asserts that the call runs to its end without its client, and that a retry gets its response.
async fn one_row_and_its_response(sample: &Sample, key: Uuid) {
    eventually("the call ends", || async { sample.completed(key).await?.then_some(()) }).await;
    let replay = sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();
    assert_eq!(replay.replayed(), Some("true"));

    let ids = sample.client.query("SELECT id FROM tenant.projects", &[]).await.expect("the projects");
    let [ref row] = ids[..] else { panic!("one row, not {}", ids.len()) };
    assert_eq!(row.get::<_, Uuid>("id").to_string(), replay.field("projectId"));
}

async fn client(sample: &Sample) -> ProjectServiceClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{}", sample.ready.address)).expect("an address");
    ProjectServiceClient::new(endpoint.connect().await.expect("a connection"))
}

/// The same message as [`Sample::project`].
fn request(sample: &Sample, key: Option<Uuid>) -> Request<CreateProjectRequest> {
    let labels = [("tier", "gold"), ("team", "a")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let cluster_id = sample.ready.cluster_id.to_string();
    let mut request = Request::new(CreateProjectRequest { cluster_id, name: "shop".to_owned(), alias: None, labels });
    let metadata = request.metadata_mut();
    metadata.insert("authorization", format!("Bearer {}", sample.ready.tokens.alice).parse().expect("a header"));
    if let Some(key) = key {
        metadata.insert("idempotency-key", key.to_string().parse().expect("a header"));
    }
    request
}

#[tokio::test]
async fn a_client_that_resets_the_stream_finds_its_response() {
    for mode in MODES {
        let Some(sample) = Sample::start(&["--handler-delay", "2s", "--mode", mode]).await else { return };
        let (mut client, key) = (client(&sample).await, Uuid::new_v4());
        tokio::select! {
            reply = client.create_project(request(&sample, Some(key))) => panic!("an answer: {reply:?}"),
            () = running(&sample, key) => {}
        }
        one_row_and_its_response(&sample, key).await;
    }
}

#[tokio::test]
async fn a_client_that_is_killed_finds_its_response() {
    for mode in MODES {
        let Some(sample) = Sample::start(&["--handler-delay", "2s", "--mode", mode]).await else { return };
        let key = Uuid::new_v4();
        let bearer = format!("Bearer {}", sample.ready.tokens.alice);
        let call = sample.create_project("shop").key(key).header("authorization", bearer);
        let mut command = sample.grpcurl.command(&call.arguments(), sample.ready.address, &call.procedure);
        let mut grpcurl = command.stdout(Stdio::null()).spawn().expect("grpcurl runs");
        running(&sample, key).await;
        grpcurl.kill().await.expect("grpcurl is killed");
        one_row_and_its_response(&sample, key).await;
    }
}

#[tokio::test]
async fn a_client_whose_deadline_passes_finds_its_response() {
    let Some(sample) = Sample::start(&["--handler-delay", "4s"]).await else { return };
    let (mut client, key) = (client(&sample).await, Uuid::new_v4());
    let mut request = request(&sample, Some(key));
    request.set_timeout(Duration::from_secs(2));
    let late = client.create_project(request).await.expect_err("the deadline passes");
    // Either tonic's server or its client notices the deadline first.
    assert!(matches!(late.code(), Code::Cancelled | Code::DeadlineExceeded), "{late:?}");
    one_row_and_its_response(&sample, key).await;
}

#[tokio::test]
async fn without_a_key_a_client_that_resets_the_stream_leaves_no_transaction_open() {
    let Some(sample) = Sample::start(&["--handler-delay", NEVER]).await else { return };
    let mut client = client(&sample).await;
    tokio::select! {
        reply = client.create_project(request(&sample, None)) => panic!("an answer: {reply:?}"),
        () = eventually("the handler waits", || async { (open(&sample).await == 1).then_some(()) }) => {}
    }
    eventually("the transaction ends", || async { (open(&sample).await == 0).then_some(()) }).await;
    assert_eq!(sample.count("tenant.projects").await, 0);
}

/// The page's switch does this, to show the retry.
#[tokio::test]
async fn a_client_whose_answer_is_lost_on_purpose_finds_its_response() {
    for mode in MODES {
        let Some(sample) = Sample::start(&["--mode", mode]).await else { return };
        let key = Uuid::new_v4();
        let mut lost = request(&sample, Some(key));
        lost.metadata_mut().insert("sample-lose-answer", "1".parse().expect("a header"));
        client(&sample).await.create_project(lost).await.expect_err("there is no answer");
        one_row_and_its_response(&sample, key).await;
    }
}
