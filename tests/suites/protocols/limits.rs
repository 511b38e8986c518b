//! Services that take one call at a time.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use uuid::Uuid;

use crate::server::{Kind, Server};

/// What was polled ready, and holds a permit, is what is called; what is not called gives it back.
#[tokio::test]
async fn are_kept_and_never_used_up() {
    for kind in Kind::BOTH {
        let server = Arc::new(Server::one_at_a_time(kind).await);
        let mut calls = Vec::new();
        for round in 0..3 {
            for protocol in kind.protocols().iter().copied() {
                for key in [None, Some(Uuid::new_v4())] {
                    // Right, malformed, of no known type, and to nobody.
                    let message = if protocol.is_json() { b"{}".as_slice() } else { b"" };
                    let right = server.call(protocol, "Create", key, message);
                    let malformed = server.call(protocol, "Create", key, b"{\x28");
                    let other = right.clone().replace("content-type", "text/plain");
                    let unknown = server.call(protocol, "None", key, message);
                    for call in [right, malformed, other, unknown] {
                        let server = Arc::clone(&server);
                        let send = async move { call.send(server.address).await };
                        match round {
                            0 => drop(timeout(Duration::from_secs(20), send).await.expect("an answer")),
                            _ => calls.push(tokio::spawn(timeout(Duration::from_secs(20), send))),
                        }
                    }
                }
            }
        }
        for call in calls {
            call.await.expect("no panic").expect("an answer");
        }
        // Each of the right ones, and with a key only once.
        let protocols = kind.protocols().len();
        assert_eq!(server.desk.finished(), 3 * 2 * protocols, "{kind:?}");
    }
}
