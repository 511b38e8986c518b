//! The settings of Connect in front of a tonic server.

use tonic_idempotency::layer::BuildError;

use crate::prelude::*;

async fn server(set: impl FnOnce(ConnectLayer) -> ConnectLayer) -> Server {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
        .store(MemoryStore::new())
        .adjust_procedures(|procedure| procedure.mode(Mode::Reserved))
        .build()
        .expect("a layer");
    Server::layered(Kind::Tonic, layer, ConnectLayer::new(FILE_DESCRIPTOR_SET).map(set)).await
}

/// The compression of a response whose message is small, or larger than 1 KiB.
async fn encoding(server: &Server, script: &str) -> Option<String> {
    let json = format!(r#"{{"script": "{script}"}}"#);
    let call = server.call(Protocol::ConnectJson, "Create", Some(Uuid::new_v4()), json.as_bytes());
    let answer = call.header("accept-encoding", "br, gzip").send(server.address).await;
    assert_eq!(answer.status, 200);
    answer.header("content-encoding").map(str::to_owned)
}

#[tokio::test]
async fn compress_responses_from_the_given_size() {
    let gzip = Some("gzip".to_owned());
    let by_default = server(|connect| connect).await;
    assert_eq!([encoding(&by_default, "small").await, encoding(&by_default, "padded").await], [None, gzip.clone()]);
    let all = server(|connect| connect.compress_from(0)).await;
    assert_eq!([encoding(&all, "small").await, encoding(&all, "padded").await], [gzip.clone(), gzip]);
    let none = server(|connect| connect.compress_from(usize::MAX)).await;
    assert_eq!([encoding(&none, "small").await, encoding(&none, "padded").await], [None, None]);
}

#[tokio::test]
async fn limit_the_size_of_a_request() {
    const LIMIT: usize = 1000;
    let server = server(|connect| connect.max_message_bytes(LIMIT)).await;
    let overhead = bytes(16, &[7; LIMIT - 10]).len() - (LIMIT - 10);
    let json = |size: usize| format!("{:size$}", "{}").into_bytes();
    for (fits, sizes) in [(true, [LIMIT - overhead, LIMIT]), (false, [LIMIT - overhead + 1, LIMIT + 1])] {
        for (protocol, message) in
            [(Protocol::Connect, bytes(16, &vec![7; sizes[0]])), (Protocol::ConnectJson, json(sizes[1]))]
        {
            let outcome = server.create(protocol, Uuid::new_v4(), &message).await;
            match fits {
                true => drop(outcome.message()),
                false => assert_eq!(outcome.error().code(), Code::ResourceExhausted, "{protocol:?} {outcome:?}"),
            }
        }
    }
    assert_eq!(server.desk.finished(), 2);
}

#[test]
fn refuse_invalid_descriptors() {
    let error = ConnectLayer::new(b"\xff".as_slice()).expect_err("no descriptors");
    assert!(matches!(error, BuildError::Descriptors(_)), "{error:?}");
}
