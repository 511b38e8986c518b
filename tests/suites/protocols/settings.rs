//! The settings of Connect in front of a tonic server.

use tonic_idempotency::layer::BuildError;

use crate::prelude::*;

async fn server(set: impl FnOnce(ConnectLayer) -> ConnectLayer) -> Server {
    Server::set(Kind::Tonic, |layer| layer, set).await
}

/// The compression of a response whose message is small, or larger than 1 KiB.
async fn encoding(server: &Server, script: &str) -> Option<String> {
    let message = Protocol::ConnectJson.script(script);
    let call = server.call(Protocol::ConnectJson, "Create", Some(Uuid::new_v4()), &message);
    let answer = call.header("accept-encoding", "br, gzip").send(server.address).await;
    assert_eq!(answer.status, 200);
    answer.header("content-encoding").map(str::to_owned)
}

#[tokio::test]
async fn compress_responses_from_the_given_size() {
    for (from, compressed) in [(None, [false, true]), (Some(0), [true, true]), (Some(usize::MAX), [false, false])] {
        let server = server(|connect| from.into_iter().fold(connect, ConnectLayer::compress_from)).await;
        for (script, is_compressed) in ["small", "padded"].into_iter().zip(compressed) {
            let expected = is_compressed.then(|| "gzip".to_owned());
            assert_eq!(encoding(&server, script).await, expected, "{from:?} {script}");
        }
    }
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
