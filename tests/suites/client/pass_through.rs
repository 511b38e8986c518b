//! Calls that the layer does not touch.

use super::foreign::{CREATE_ORDER, Foreign, order};
use super::prelude::*;

#[tokio::test(start_paused = true)]
async fn without_an_option_are_unchanged() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer).await;
    client.get_order(order("shop")).await.expect("an order");
    client.watch_orders(order("shop")).await.expect("a stream");
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|call| call.key().is_none() && call.message == order("shop")));
}

#[tokio::test(start_paused = true)]
async fn whose_message_is_too_large_to_keep_are_made_once_without_a_key() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.max_request_bytes(100)).await;
    let mut large = order("shop");
    large.padding = vec![7; 200];
    server.fails([Status::unavailable("")]);
    let refused = client.create_order(large.clone()).await.expect_err("it is made once");
    assert_eq!(refused.code(), Code::Unavailable);
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].key(), &seen[0].message), (1, None, &large));
}

/// A caller with a key of its own, or with a journal, expects protection.
#[tokio::test(start_paused = true)]
async fn that_are_to_be_protected_and_cannot_be_are_refused_unless_that_is_allowed() {
    let large = || {
        let mut large = tonic::Request::new(order("shop"));
        large.get_mut().padding = vec![7; 200];
        large
    };
    let own = || {
        let mut own = large();
        own.extensions_mut().insert(OperationKey::from_text("k-1").expect("a key"));
        own
    };
    let journal = Journal::builder().in_memory().expect("a journal");
    for (has_journal, is_allowed) in [(false, false), (false, true), (true, false), (true, true)] {
        let server = Foreign::default();
        let journal = journal.clone();
        let mut client = server
            .client(move |layer| {
                let layer = layer.max_request_bytes(100);
                let layer = if has_journal { layer.journal(journal) } else { layer };
                if is_allowed { layer.allow_unprotected() } else { layer }
            })
            .await;
        for (request, is_refused) in [(own(), !is_allowed), (large(), has_journal && !is_allowed)] {
            let answer = client.create_order(request).await;
            assert_eq!(
                answer.map(drop).map_err(|refused| refused.code()).err(),
                is_refused.then_some(Code::ResourceExhausted)
            );
        }
        let keys: Vec<_> = server.seen().iter().map(|call| call.key().map(str::to_owned)).collect();
        let (with_own, without) = (Some("k-1".to_owned()), None);
        let expected = match (has_journal, is_allowed) {
            (_, true) => vec![with_own, without],
            (false, false) => vec![without],
            (true, false) => vec![],
        };
        assert_eq!(keys, expected, "{has_journal} {is_allowed}");
    }
}

/// The message is sent as it is, and so is its empty field.
#[tokio::test(start_paused = true)]
async fn that_are_compressed_have_their_key_in_the_header() {
    let server = Foreign::default();
    let client = server.client(|layer| layer.key_field(CREATE_ORDER, "request_id")).await;
    let mut client = client.send_compressed(tonic::codec::CompressionEncoding::Gzip);
    server.fails([Status::unavailable("")]);
    client.create_order(order("shop")).await.expect("an order");
    client.get_order(order("shop")).await.expect("an order");

    let seen = server.seen();
    let [first, again, without_option] = &seen[..] else { panic!("three calls: {seen:?}") };
    assert!(seen.iter().all(|call| call.headers["grpc-encoding"] == "gzip" && call.message == order("shop")));
    let key: Uuid = first.key().expect("a key").parse().expect("a UUID");
    assert_eq!((key.get_version_num(), first.key()), (7, again.key()));
    assert_eq!(without_option.key(), None);
}
