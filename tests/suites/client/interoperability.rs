//! The layer in front of a plain tonic server that knows the header and nothing else: it counts keys.

use std::collections::HashMap;

use tcp_proxy::{Cut, Direction, Moment};
use tonic::transport::Endpoint;
use tonic_idempotency_tests::Proxy;

use super::foreign::{Foreign, Seen, order};
use super::prelude::*;

/// The number of operations in each direction of the cuts.
const OPERATIONS: usize = 20;

/// The attempts of each key, in the order of the keys' first attempts.
fn by_key(seen: &[Seen]) -> Vec<(&str, Vec<&Seen>)> {
    let (mut places, mut keys) = (HashMap::new(), Vec::<(&str, Vec<&Seen>)>::new());
    for call in seen {
        let key = call.key().expect("every attempt has a key");
        let place = *places.entry(key).or_insert(keys.len());
        if place == keys.len() {
            keys.push((key, Vec::new()));
        }
        keys[place].1.push(call);
    }
    keys
}

/// A server that deduplicates by key, as others do, would have each effect once.
#[tokio::test]
async fn each_operation_is_one_key_however_often_its_connection_is_cut() {
    let server = Foreign::default();
    let proxy = Proxy::start(shop::serve(server.routes()).await).expect("a proxy");
    let channel = Endpoint::new(format!("http://{}", proxy.address())).expect("an address").connect_lazy();
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET)
        .backoff(Duration::from_millis(1), Duration::from_millis(50))
        .build()
        .expect("the layer");
    let mut client = ShopClient::new(layer.layer(channel));

    let mut names = Vec::new();
    for direction in [Direction::Requests, Direction::Answers] {
        for nth in 0..OPERATIONS {
            proxy.forget_cuts();
            proxy
                .cut_later(Cut { all: true, moment: Moment::Bytes { direction, left: nth * 400 / OPERATIONS } }, || {});
            let name = format!("{direction:?} {nth}");
            let response = client.create_order(order(&name)).await.expect("an order");
            assert_eq!(Delivery::expires_in(response.metadata()), None, "the server does not say");
            assert!(!Delivery::of(response.extensions()).replayed, "the server does not say");
            names.push(name);
        }
    }

    let seen = server.seen();
    let keys = by_key(&seen);
    assert!(seen.len() > keys.len(), "some answers were lost: {} calls", seen.len());
    assert_eq!(keys.iter().map(|(_, attempts)| attempts[0].message.name.clone()).collect::<Vec<_>>(), names);
    for (key, attempts) in keys {
        // Bare, as every server reads it, and once.
        let uuid: Uuid = key.parse().expect("a UUID");
        assert_eq!((uuid.get_version_num(), uuid.to_string().as_str()), (7, key));
        assert!(attempts.iter().all(|call| call.headers.get_all("idempotency-key").iter().count() == 1));
        assert!(attempts.iter().all(|call| call.message == attempts[0].message), "{attempts:?}");
    }
}
