//! Services that handle one call at a time.

use crate::prelude::*;

/// The service that is called is the one that was polled ready and holds the permit. A service that is not called
/// returns its permit.
#[tokio::test]
async fn of_concurrency_are_respected_and_never_leak_permits() {
    for kind in Kind::BOTH {
        let server = Arc::new(Server::one_at_a_time(kind).await);
        let mut calls = Vec::new();
        for round in 0..3 {
            for protocol in kind.protocols().iter().copied() {
                for key in [None, Some(Uuid::new_v4())] {
                    // A valid call, a malformed one, one of an unknown content type, and one of an unknown procedure.
                    let message = protocol.empty();
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
        // Every valid call was handled. Each key had one valid call.
        assert_eq!(server.desk.finished(), 3 * 2 * kind.protocols().len(), "{kind:?}");
    }
}
