//! Fields that clients change between attempts, over every protocol.

use tonic_idempotency::policy::Procedure;

use crate::messages::{joined, number};
use crate::prelude::*;

const IGNORED: [&str; 6] = ["string", "timestamp", "part.amount", "parts.inner.amount", "by_int32.part_name", "any"];

async fn server(kind: Kind) -> Server {
    let create =
        IGNORED.iter().fold(Procedure::builder("/catalog.v1.Catalog/Create"), |create, field| create.ignore(*field));
    Server::with(kind, |builder| builder.procedure(create)).await
}

/// A message in binary and in JSON. The attempt is in the ignored fields.
fn attempt(name: &str, attempt: u64) -> (Vec<u8>, String) {
    let binary = joined([
        text(1, name),
        text(15, &attempt.to_string()),
        bytes(35, &bytes(3, &joined([text(1, "a"), number(2, attempt)]))),
        bytes(35, &[]),
        bytes(41, &joined([number(1, 7), bytes(2, &joined([text(1, &attempt.to_string()), number(2, 5)]))])),
        bytes(50, &joined([text(1, name), number(2, attempt)])),
        bytes(60, &number(1, attempt)),
    ]);
    let json = format!(
        r#"{{ "string": "{attempt}", "script": "{name}", "parts": [{{"inner": {{"partName": "a", "amount": "{attempt}"}}}}, {{}}],
             "byInt32": {{"7": {{"amount": 5, "part_name": "{attempt}"}}}},
             "part": {{"amount": {attempt}, "partName": "{name}"}},
             "any": {{"@type": "a/google.protobuf.Int32Value", "value": {attempt}}},
             "timestamp": "1970-01-01T00:00:0{attempt}Z" }}"#
    );
    (binary, json)
}

fn encoded(protocol: Protocol, (binary, json): (Vec<u8>, String)) -> Vec<u8> {
    if protocol.is_json() { json.into_bytes() } else { binary }
}

#[tokio::test]
async fn make_no_other_request_over_every_protocol() {
    over_each(server, async |server, first, told| {
        let key = Uuid::new_v4();
        let answer = server.create(first, key, &encoded(first, attempt("a", 1))).await;
        assert!(!answer.is_replay(), "{told} {answer:?}");
        answer.message();
        for protocol in server.kind.protocols().iter().copied() {
            let answer = server.create(protocol, key, &encoded(protocol, attempt("a", 2))).await;
            assert!(answer.is_replay(), "{told} {protocol:?} {answer:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn do_not_hide_that_another_field_differs() {
    over_each(server, async |server, protocol, told| {
        let key = Uuid::new_v4();
        server.create(protocol, key, &encoded(protocol, attempt("a", 1))).await.message();
        let (binary, json) = attempt("a", 1);
        let others = [
            attempt("b", 1),
            // One more element, and one more entry.
            (joined([binary.clone(), bytes(35, &[])]), json.replace("}}, {}]", "}}, {}, {}]")),
            (joined([binary, bytes(41, &[])]), json.replace(r#""byInt32": {"#, r#""byInt32": {"0": {}, "#)),
        ];
        for other in others {
            let answer = server.create(protocol, key, &encoded(protocol, other.clone())).await;
            assert_eq!(Reason::of(answer.error()), Some(Reason::KeyReused), "{told} {other:?}");
        }
    })
    .await;
}
