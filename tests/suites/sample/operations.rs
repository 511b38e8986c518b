//! The service that reports the outcomes of calls to their callers: with grpcurl, over Connect and over gRPC-Web.

use prost::Message as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic_idempotency::proto::v1::{GetOperationRequest, Operation, State};
use uuid::Uuid;

use super::{
    call::{Call, Reply},
    subject::Sample,
};

const SERVICE: &str = "idempotency.v1.OperationService";

const UNAUTHENTICATED: u64 = 16;

fn ask(procedure: &str, request: Value) -> Call {
    Call::of(format!("{SERVICE}/{procedure}"), request)
}

async fn get(sample: &Sample, token: &str, key: Uuid) -> Reply {
    let call = ask("GetOperation", json!({ "key": key }));
    sample.send(call.header("authorization", format_args!("Bearer {token}"))).await.succeeded()
}

/// Sends a request as alice, over HTTP/1.0, whose answers are in one piece. Returns the status line and the body.
async fn http(sample: &Sample, head: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut connection = TcpStream::connect(sample.ready.address).await.expect("a connection");
    let (address, token) = (sample.ready.address, &sample.ready.tokens.alice);
    let length = body.len();
    let head =
        format!("{head}\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n");
    connection.write_all(&[head.as_bytes(), body].concat()).await.expect("it is sent");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("an answer");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("the end of the head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    (head.lines().next().unwrap_or_default().to_owned(), answer[end + 4..].into())
}

#[tokio::test]
async fn tell_alice_and_nobody_else_what_became_of_her_call() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let list = sample.grpcurl.command(&[], sample.ready.address, "list").output().await.expect("grpcurl runs");
    assert!(String::from_utf8_lossy(&list.stdout).lines().any(|line| line == SERVICE), "{list:?}");

    let (key, tokens) = (Uuid::new_v4(), &sample.ready.tokens);
    assert_eq!(get(&sample, &tokens.alice, key).await.field("state"), "STATE_ABSENT");
    let created = sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();
    let found = get(&sample, &tokens.alice, key).await;
    assert_eq!((found.field("state"), found.field("work")), ("STATE_COMPLETED", "WORK_PROCESSING"));
    assert_eq!(found.field("procedure"), "/organization.v1.ProjectService/CreateProject");
    assert_eq!(found.body["resource"], json!({ "type": "project", "id": created.field("projectId") }));
    assert!(found.field("createTime") <= found.field("completeTime"), "{found:?}");
    assert!(found.field("completeTime") < found.field("expireTime"), "{found:?}");

    let of_bob = get(&sample, &tokens.bob, key).await;
    assert_eq!(of_bob.body, json!({ "key": key, "state": "STATE_ABSENT" }));
    assert_eq!(sample.send(ask("GetOperation", json!({ "key": key }))).await.code, UNAUTHENTICATED);
}

#[tokio::test]
async fn tell_one_user_of_two_tenants_apart() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let (key, tokens) = (Uuid::new_v4(), &sample.ready.tokens);
    let invite = Call::new("InviteService/InviteMember", json!({ "email": "carol@example.org", "role": "viewer" }));
    let invite = invite.key(key).header("authorization", format_args!("Bearer {}", tokens.x_here));
    let invited = sample.send(invite).await.succeeded();
    let found = get(&sample, &tokens.x_here, key).await;
    assert_eq!(found.field("state"), "STATE_COMPLETED");
    assert_eq!(found.body["resource"]["id"], invited.field("invitationId"));
    assert_eq!(get(&sample, &tokens.x_there, key).await.body, json!({ "key": key, "state": "STATE_ABSENT" }));
}

#[tokio::test]
async fn wait_until_the_work_is_completed() {
    let Some(sample) = Sample::start(&["--outbox-delay", "1s"]).await else { return };
    let key = Uuid::new_v4();
    let first = sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();
    assert_eq!(first.status(), Some("processing"));
    let wait = ask("WaitOperation", json!({ "key": key, "until": "UNTIL_WORK_ENDED" }));
    let found = sample.as_alice(wait).await.succeeded();
    assert_eq!((found.field("state"), found.field("work")), ("STATE_COMPLETED", "WORK_COMPLETED"));
}

#[tokio::test]
async fn answer_over_connect_and_grpc_web() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let key = Uuid::new_v4();
    sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();

    let json = json!({ "key": key }).to_string();
    let describe = format!("POST /{SERVICE}/DescribeProcedure HTTP/1.0\r\ncontent-type: application/json");
    let asked = json!({ "procedure": "organization.v1.ProjectService/CreateProject" }).to_string();
    let (_, body) = http(&sample, &describe, asked.as_bytes()).await;
    let described: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((&described["mode"], &described["retention"]), (&json!("MODE_TRANSACTIONAL"), &json!("86400s")));

    let post = format!("POST /{SERVICE}/GetOperation HTTP/1.0\r\ncontent-type: application/json");
    let get =
        format!("GET /{SERVICE}/GetOperation?connect=v1&encoding=json&message=%7B%22key%22%3A%22{key}%22%7D HTTP/1.0");
    for (head, body) in [(post, json.as_bytes()), (get, b"")] {
        let (status, body) = http(&sample, &head, body).await;
        let found: Value = serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {status}"));
        assert!(status.ends_with(" 200 OK"), "{status}");
        assert_eq!(found["state"], "STATE_COMPLETED", "{found}");
    }
    let wait = format!("POST /{SERVICE}/WaitOperation HTTP/1.0\r\ncontent-type: application/json");
    let body = json!({ "key": key, "until": "UNTIL_WORK_ENDED", "timeout": "0.2s" }).to_string();
    let (_, body) = http(&sample, &wait, body.as_bytes()).await;
    let found: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(found["work"], "WORK_PROCESSING", "what is known when the time is up: {found}");

    let message = GetOperationRequest { key: key.to_string() }.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let web = format!("POST /{SERVICE}/GetOperation HTTP/1.0\r\ncontent-type: application/grpc-web+proto");
    let (_, body) = http(&sample, &web, &[&[0][..], &length, &message].concat()).await;
    let length = u32::from_be_bytes(body[1..5].try_into().expect("a length")) as usize;
    let found = Operation::decode(&body[5..5 + length]).expect("an Operation");
    assert_eq!(found.state(), State::Completed);
}
