//! A key in a field of the message, in every encoding and over every protocol.

use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tonic_idempotency::policy::{KeyFormat, ProcedureBuilder};

use crate::prelude::*;

async fn server(kind: Kind, key_field: &'static str) -> Server {
    let adjust = move |procedure: ProcedureBuilder| {
        procedure.mode(Mode::Reserved).key_field(key_field).key_format(KeyFormat::Any)
    };
    Server::with(kind, |builder| builder.adjust_procedures(adjust)).await
}

/// Calls `Create` with an item, given in both encodings.
async fn create(server: &Server, protocol: Protocol, header: Option<Uuid>, item: &Item, json: &str) -> Outcome {
    let message = if protocol.is_json() { json.as_bytes().to_vec() } else { item.encode_to_vec() };
    server.send(protocol, server.call(protocol, "Create", header, &message)).await
}

#[tokio::test]
async fn is_the_same_key_in_each_of_them() {
    for kind in Kind::BOTH {
        let (texts, bytes) = (server(kind, "optional_string").await, server(kind, "bytes").await);
        let (text, uuid) = (format!("order-{}", Uuid::new_v4()), Uuid::new_v4());
        let by_text = Item { optional_string: Some(text.clone()), ..Item::default() };
        let by_bytes = Item { bytes: uuid.as_bytes().to_vec(), ..Item::default() };
        let rows = [
            (&texts, by_text, json!({ "optionalString": text })),
            (&bytes, by_bytes, json!({ "bytes": STANDARD.encode(uuid) })),
        ];
        for (server, item, json) in rows {
            for (calls, protocol) in kind.protocols().iter().copied().enumerate() {
                let outcome = create(server, protocol, None, &item, &json.to_string()).await;
                outcome.message();
                assert_eq!(outcome.is_replay(), calls > 0, "{kind:?} {protocol:?} {json}");
            }
            assert_eq!(server.desk.finished(), 1, "{kind:?} {json}");
        }
    }
}

#[tokio::test]
async fn that_is_empty_is_no_key() {
    over_each(
        async |kind| server(kind, "choice_part.part_name").await,
        async |server, protocol, told| {
            let before = server.desk.finished();
            let outcome = create(server, protocol, None, &Item::default(), "{}").await;
            outcome.message();
            assert_eq!(outcome.answer.header("idempotency-status"), None, "{told}");
            assert_eq!(server.desk.finished(), before + 1, "{told}");
        },
    )
    .await;
}

#[tokio::test]
async fn that_is_no_key_or_disagrees_with_the_header_is_refused() {
    over_each(
        async |kind| server(kind, "string").await,
        async |server, protocol, told| {
            for (header, text, mismatch) in [(Some(Uuid::new_v4()), "order-17", true), (None, "order 17", false)] {
                let item = Item { string: text.to_owned(), ..Item::default() };
                let outcome = create(server, protocol, header, &item, &json!({ "string": text }).to_string()).await;
                let error = outcome.error();
                assert_eq!((error.code(), Reason::of(error)), (Code::InvalidArgument, Some(Reason::KeyInvalid)));
                let info = error.get_details_error_info().expect("an ErrorInfo");
                assert_eq!(info.metadata.get("mismatch").map(String::as_str), mismatch.then_some("key_field"));
                let bad = error.get_details_bad_request().expect("a BadRequest");
                assert_eq!(bad.field_violations[0].field, "string", "{told}");
            }
            assert_eq!(server.desk.started(), 0, "{told}");
        },
    )
    .await;
}
