//! The same message is the same request, in every encoding and over every protocol.

use protobuf_canonical::Canonical;

use crate::messages::rows;
use crate::prelude::*;

/// The fields of a response, with the returned message left undecoded.
#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(bytes = "vec", tag = "2")]
    item: Vec<u8>,
}

#[tokio::test]
async fn request_in_every_encoding_and_over_every_protocol() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let mut wrong = Vec::new();
        for (index, row) in rows().into_iter().enumerate() {
            // Lists every way to send the message; each row of `rows` begins with another.
            let mut ways: Vec<(Protocol, Vec<u8>)> = Vec::new();
            for protocol in kind.protocols() {
                match protocol.is_json() {
                    true => ways.extend(row.json.iter().map(|json| (*protocol, json.clone().into_bytes()))),
                    false => ways.extend(row.binary.iter().map(|binary| (*protocol, binary.clone()))),
                }
            }
            let begin = index * 3 % ways.len();
            ways.rotate_left(begin);

            let (key, before) = (Uuid::new_v4(), server.desk.finished());
            let mut first: Option<(String, Option<Vec<u8>>, Option<serde_json::Value>)> = None;
            for (protocol, message) in ways {
                let told = format!("{kind:?}: {}: {protocol:?} {:?}", row.name, String::from_utf8_lossy(&message));
                let outcome = server.create(protocol, key, &message).await;
                if let Err(error) = &outcome.result {
                    wrong.push(format!("{told}: {error:?}"));
                    continue;
                }
                if outcome.is_replay() == first.is_none() {
                    wrong.push(format!("{told}: replay {}", outcome.is_replay()));
                }
                let (id, binary, json) = read(protocol, &outcome);
                let first = first.get_or_insert_with(|| (id.clone(), None, None));
                assert_eq!(first.0, id, "{told}");
                if let Some(binary) = binary {
                    assert_eq!(*first.1.get_or_insert_with(|| binary.clone()), binary, "{told}");
                }
                if let Some(json) = json {
                    assert_eq!(*first.2.get_or_insert_with(|| json.clone()), json, "{told}");
                }
            }
            assert_eq!(server.desk.finished() - before, 1, "{kind:?}: {}", row.name);
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// The handler gets the message that was hashed.
#[tokio::test]
async fn message_for_the_hash_and_for_the_handler() {
    let pool = prost_reflect::DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let canonical = Canonical::new(&pool.get_message_by_name("catalog.v1.Item").expect("the message"));
    let mut wrong = Vec::new();
    // Uses the native server: `connectrpc` returns every field that its messages hold, while prost drops the sign of a
    // zero.
    let server = Server::new(Kind::Native).await;
    for row in rows() {
        let expected = canonical.hash(&row.binary[0]).expect("a message");
        for json in &row.json {
            let call = server.call(Protocol::ConnectJson, "Create", Some(Uuid::new_v4()), json.as_bytes());
            server.send(Protocol::ConnectJson, call.clone()).await.message();
            // Uses the same key to get the response in binary.
            let key = call.headers.iter().find(|(name, _)| *name == "idempotency-key").expect("a key").1.clone();
            let replay = server.create(Protocol::Grpc, key.parse().expect("a UUID"), &row.binary[0]).await;
            let Ok(message) = &replay.result else {
                wrong.push(format!("{}: {json}: {:?}", row.name, replay.error()));
                continue;
            };
            let Response { item, .. } = Response::decode(message.clone()).expect("a response");
            if canonical.hash(&item).ok() != Some(expected) {
                wrong.push(format!("{}: {json}: {item:02x?}, and not {:02x?}", row.name, row.binary[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The id, and the message in a form that can be compared.
fn read(protocol: Protocol, outcome: &Outcome) -> (String, Option<Vec<u8>>, Option<serde_json::Value>) {
    let message = outcome.message();
    if protocol.is_json() {
        let json: serde_json::Value = serde_json::from_slice(message).expect("JSON");
        return (json["id"].as_str().expect("an id").to_owned(), None, Some(json));
    }
    (Response::decode(message.clone()).expect("a response").id, Some(message.to_vec()), None)
}

/// Media types have no case. tonic-web, which is in front of a tonic server's gRPC-Web, takes them as they are.
#[tokio::test]
async fn request_whatever_the_case_of_its_content_type() {
    over_each(Server::new, async |server, protocol, told| {
        if matches!(protocol, Protocol::GrpcWeb | Protocol::GrpcWebText) {
            return;
        }
        let key = Uuid::new_v4();
        let first = server.create(protocol, key, protocol.empty()).await;
        let call = server.call(protocol, "Create", Some(key), protocol.empty());
        let content_type = call.headers.iter().find(|(name, _)| *name == "content-type").expect("a content type");
        let content_type = content_type.1.to_ascii_uppercase();
        let again = server.send(protocol, call.replace("content-type", &content_type)).await;
        assert!(again.is_replay(), "{told} {content_type} {again:?}");
        assert_eq!(again.message(), first.message(), "{told}");
    })
    .await;
}
