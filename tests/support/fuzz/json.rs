//! The fuzz target of Connect's JSON.

use bytes::Bytes;
use prost_reflect::DynamicMessage;

use super::world::{World, frame, ignoring, request_type};

/// Takes a JSON body and sends it with a key over Connect. The result is a message that equals its binary form and its
/// newly written JSON, or an error that leaves nothing behind.
///
/// # Panics
///
/// The property does not hold.
pub fn json(input: &[u8]) {
    super::runtime().block_on(async {
        let world = World::new();
        let answer = world.send("application/json", None, Bytes::copy_from_slice(input)).await;
        let handled = world.handled();
        let Some(message) = handled.first() else {
            assert!(answer.http.is_client_error(), "the caller's mistake: {}", answer.http);
            serde_json::from_slice::<serde_json::Value>(&answer.body).expect("an error in JSON");
            assert!(world.key_is_free().await, "a refused call reserves nothing");
            return;
        };
        assert_eq!(answer.http, 200);
        assert!(serde_json::from_slice::<serde_json::Value>(input).is_ok(), "only JSON is handled");

        let hashes = ignoring().hashes_of_json(message, input).expect("a message");
        assert_eq!(*hashes.canonical(), ignoring().hash(message).expect("a message"));

        let replay = world.send("application/grpc", None, frame(message)).await;
        assert!(replay.is_replay(), "the same message over gRPC");
        let replay = world.send("application/proto", None, message.clone()).await;
        assert!(replay.is_replay(), "the same message in binary");
        let decoded = DynamicMessage::decode(request_type(), message.clone()).expect("a message");
        if let Ok(again) = serde_json::to_vec(&decoded) {
            let replay = world.send("application/json", None, again.into()).await;
            assert!(replay.is_replay(), "the same message in JSON written anew");
        }
        assert_eq!(world.handled().len(), 1);
    });
}
