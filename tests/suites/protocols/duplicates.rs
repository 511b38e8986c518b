//! Duplicates of a running call, over other protocols.

use crate::prelude::*;

async fn hold(server: &Server, protocol: Protocol, procedure: &str, key: Uuid) -> Outcome {
    server.send(protocol, server.call(protocol, procedure, Some(key), &protocol.script("hold"))).await
}

#[tokio::test]
async fn are_refused_over_every_protocol() {
    over_each(Server::new, async |server, first, told| {
        let (key, before) = (Uuid::new_v4(), server.desk.started());
        let running = tokio::spawn({
            let server = server.clone();
            async move { hold(&server, first, "Create", key).await }
        });
        until("the handler has started", async || server.desk.started() == before + 1).await;
        for protocol in server.kind.protocols().iter().copied() {
            let refused = hold(server, protocol, "Create", key).await;
            assert_eq!(refused.error().code(), Code::Aborted, "{told} {protocol:?}");
            assert_eq!(Reason::of(refused.error()), Some(Reason::InProgress), "{told} {protocol:?}");
            if protocol.is_connect() {
                assert_eq!(refused.answer.status, 409);
            }
        }
        server.desk.open(1);
        assert!(!running.await.expect("no panic").is_replay());
        assert_eq!(server.desk.started(), before + 1);
    })
    .await;
}

#[tokio::test]
async fn wait_for_the_response_if_the_policy_is_to_wait() {
    for kind in Kind::BOTH {
        let server = Arc::new(Server::new(kind).await);
        let key = Uuid::new_v4();
        let spawn = |protocol| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { hold(&server, protocol, "Queue", key).await })
        };
        let first = spawn(Protocol::ConnectJson);
        until("the handler has started", async || server.desk.started() == 1).await;
        let others: Vec<_> = kind.protocols().iter().copied().map(spawn).collect();
        server.desk.open(1);
        let first = first.await.expect("no panic");
        assert!(!first.is_replay(), "{first:?}");
        first.message();
        for other in others {
            let other = other.await.expect("no panic");
            assert!(other.is_replay(), "{kind:?} {other:?}");
            other.message();
        }
        assert_eq!(server.desk.started(), 1, "{kind:?}");
    }
}
