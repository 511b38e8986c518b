//! Answers and events that end an entry, and those that do not.

use std::convert::Infallible;

use tonic::{Response, body::Body, metadata::MetadataMap};
use tower::service_fn;

use super::prelude::*;
use super::{
    foreign::{Answer, Foreign},
    harness::{Setup, in_memory, kept, key, keyed, layer},
};

#[tokio::test]
async fn an_answer_that_no_retry_can_change_ends_an_entry() {
    let mut setup = Setup::in_memory().await;
    setup.client.create_order(keyed("shop", "k-1")).await.expect("an order");
    for code in [Code::NotFound, Code::FailedPrecondition, Code::Unauthenticated] {
        setup.server.fails([Status::new(code, "")]);
        let refused = setup.client.create_order(keyed("shop", "k-2")).await.expect_err("an error");
        assert_eq!((refused.code(), kept(&refused)), (code, None));
        assert!(setup.keys().await.is_empty(), "{code}");
    }
}

#[tokio::test]
async fn a_call_whose_outcome_nobody_knows_leaves_its_entry_and_its_caller_hears_of_it() {
    let mut setup = Setup::in_memory().await;
    setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
    let away = setup.client.create_order(keyed("shop", "k-1")).await.expect_err("the attempts are used up");
    assert_eq!((away.code(), kept(&away)), (Code::Unavailable, Some(key("k-1"))));
    setup.server.answers([Answer::Nothing]);
    let mut request = keyed("shop", "k-2");
    request.set_timeout(Duration::from_secs(1));
    let late = setup.client.create_order(request).await.expect_err("the deadline is over");
    // The channel has a clock, too, which says `CANCELLED`.
    assert!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late:?}");
    assert_eq!(kept(&late), Some(key("k-2")));
    setup.server.fails([Status::unavailable("away"), Status::unauthenticated("expired")]);
    let expired = setup.client.create_order(keyed("shop", "k-3")).await.expect_err("the credentials have expired");
    assert_eq!((expired.code(), kept(&expired)), (Code::Unauthenticated, Some(key("k-3"))));
    assert_eq!(setup.keys().await, ["k-1", "k-2", "k-3"]);
    assert!(setup.journal.entries().await.expect("the entries").iter().all(|entry| entry.state == EntryState::Waiting));
}

/// Only the server's layer knows the outcome of an earlier attempt, or of one that a proxy answered.
#[tokio::test]
async fn an_error_that_may_be_another_ones_leaves_an_entry_until_the_layer_says_that_it_is_this_operations() {
    let mut setup = Setup::in_memory().await;
    let anywhere = [Code::Internal, Code::Aborted, Code::Unknown, Code::ResourceExhausted];
    let after_another = [Code::NotFound, Code::PermissionDenied, Code::Unimplemented, Code::Unauthenticated];
    for (number, code) in anywhere.into_iter().chain(after_another).enumerate() {
        let id = format!("k-{number}");
        if !anywhere.contains(&code) {
            setup.server.fails([Status::unavailable("lost")]);
        }
        setup.server.fails([Status::new(code, "")]);
        let unresolved = setup.client.create_order(keyed("shop", &id)).await.expect_err("an error");
        assert_eq!((unresolved.code(), kept(&unresolved)), (code, Some(key(&id))));
        for (outcome, lost) in [("freed", None), ("kept", Some(Status::unavailable("lost")))] {
            let mut metadata = MetadataMap::new();
            metadata.insert("idempotency-outcome", outcome.parse().expect("metadata"));
            setup.server.fails(lost.into_iter().chain([Status::with_metadata(code, "", metadata)]));
            let id = format!("{id}-{outcome}");
            let ended = setup.client.create_order(keyed("shop", &id)).await.expect_err("an error");
            assert_eq!((ended.code(), kept(&ended)), (code, None), "{outcome}");
        }
    }
    assert_eq!(setup.keys().await.len(), anywhere.len() + after_another.len());
}

/// An empty body is a valid empty message, and no answer of gRPC.
#[tokio::test]
async fn a_page_of_a_proxy_is_no_success() {
    let mut setup = Setup::in_memory().await;
    setup.leave(["k-1"]).await;
    for http in [200, 204, 400, 401, 403, 404, 500, 502, 520] {
        for content_type in ["application/grpc", "text/html"] {
            let page = service_fn(move |_: http::Request<Body>| async move {
                let page = http::Response::builder().status(http).header("content-type", content_type);
                Ok::<_, Infallible>(page.body(Body::empty()).expect("a page"))
            });
            for resumed in [
                setup.journal.resume(page).await,
                setup.journal.resume(layer(&setup.journal, |layer| layer.max_attempts(3)).layer(page)).await,
            ] {
                let outcome = &resumed.first().expect("an entry").outcome;
                assert!(matches!(outcome, EntryOutcome::Unresolved(_)), "{http} {content_type}: {outcome:?}");
                assert_eq!(setup.keys().await, ["k-1"]);
            }
        }
    }
}

/// A server is not believed that sends the metadata with which the layer marks a kept entry.
#[tokio::test]
async fn no_server_says_that_an_entry_stays() {
    let mut setup = Setup::in_memory().await;
    let mut metadata = MetadataMap::new();
    metadata.insert("idempotency-journal-key", "k-9".parse().expect("metadata"));
    setup.server.fails([Status::with_metadata(Code::NotFound, "", metadata)]);
    assert_eq!(kept(&setup.client.create_order(keyed("shop", "k-1")).await.expect_err("an error")), None);
    assert!(setup.keys().await.is_empty());
}

#[tokio::test]
async fn a_call_that_its_caller_drops_leaves_its_entry() {
    let setup = Setup::in_memory().await;
    setup.server.answers([Answer::Nothing]);
    let mut client = setup.client.clone();
    let call = tokio::spawn(async move { client.create_order(keyed("shop", "k-1")).await });
    until("the call is under way", async || !setup.server.seen().is_empty()).await;
    let state = async || setup.journal.entries().await.expect("the entries").first().map(|entry| entry.state);
    assert_eq!(state().await, Some(EntryState::UnderWay));
    call.abort();
    until("the call is dropped", async || state().await == Some(EntryState::Waiting)).await;
}

#[tokio::test]
async fn an_entry_older_than_its_key_is_protected_is_reported_and_not_sent() {
    let journal = in_memory(|journal| journal.max_age(Duration::ZERO));
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    setup.leave(["k-1"]).await;
    for _ in 0..2 {
        let resumed = setup.journal.resume(setup.service.clone()).await;
        assert!(
            matches!(&resumed[..], [resumed] if matches!(resumed.outcome, EntryOutcome::Expired { .. })),
            "{resumed:?}"
        );
    }
    let refused = setup.client.create_order(keyed("shop", "k-1")).await.expect_err("it could happen twice");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(setup.server.seen().is_empty());
    let given_up = setup.journal.give_up(&key("k-1")).await.expect("the entries");
    assert!(matches!(&given_up[..], [entry] if entry.key == key("k-1")), "{given_up:?}");
    assert!(setup.keys().await.is_empty());
}

#[tokio::test]
async fn a_server_may_say_that_it_forgets_a_key_sooner() {
    let mut setup = Setup::in_memory().await;
    for (key, expires, is_sent) in [("k-1", "0", false), ("k-2", "3600", true)] {
        let mut metadata = MetadataMap::new();
        metadata.insert("idempotency-expires", expires.parse().expect("metadata"));
        let in_progress = || Status::with_metadata(Code::Unavailable, "", metadata.clone());
        setup.server.fails(std::iter::repeat_with(in_progress).take(3));
        setup.client.create_order(keyed("shop", key)).await.expect_err("the server is busy");
        setup.server.clear();
        assert_eq!(setup.server.seen().len(), if is_sent { 3 } else { 1 }, "{key}");
        let resumed = setup.journal.resume(setup.service.clone()).await;
        let outcome = &resumed.last().expect("an entry").outcome;
        assert_eq!(matches!(outcome, EntryOutcome::Answered(_)), is_sent, "{outcome:?}");
        assert_eq!(setup.server.seen().len(), usize::from(is_sent));
    }
}

#[tokio::test]
async fn credentials_that_have_expired_do_not_end_an_entry_that_is_resumed() {
    let mut setup = Setup::in_memory().await;
    setup.leave(["k-1"]).await;
    let mut kept = MetadataMap::new();
    kept.insert("idempotency-outcome", "kept".parse().expect("metadata"));
    let of_the_layer = Status::with_metadata(Code::NotFound, "gone", kept);
    for (status, ends) in
        [(Status::unauthenticated("expired"), false), (Status::not_found("gone"), false), (of_the_layer, true)]
    {
        setup.server.fails([status.clone()]);
        let resumed = setup.journal.resume(setup.service.clone()).await;
        let outcome = resumed.into_iter().next().expect("an entry").outcome;
        let (EntryOutcome::Unresolved(said) | EntryOutcome::Failed(said)) = &outcome else { panic!("{outcome:?}") };
        assert_eq!((said.code(), matches!(outcome, EntryOutcome::Failed(_))), (status.code(), ends));
        let state = setup.journal.entries().await.expect("the entries")[0].state;
        assert_eq!(state, if ends { EntryState::Failed } else { EntryState::Waiting });
    }
}

#[tokio::test]
async fn an_entry_that_is_given_up_is_not_sent_any_more() {
    let mut setup = Setup::in_memory().await;
    setup.leave(["k-1", "k-2"]).await;
    assert_eq!(setup.journal.give_up(&key("k-1")).await.expect("the entries").len(), 1);
    setup.journal.resume(setup.service.clone()).await;
    assert!(matches!(&setup.server.seen()[..], [seen] if seen.key() == Some("k-2")));
    let answered: Response<_> = setup.client.create_order(keyed("shop", "k-1")).await.expect("an order");
    drop(answered);
}

/// Its key protects from the first time that it was sent.
#[tokio::test]
async fn a_call_that_is_made_again_leaves_its_entry_as_old_and_as_protected_as_it_was() {
    let mut setup = Setup::with(Foreign::default(), in_memory(|journal| journal), |layer| layer.max_attempts(1)).await;
    let mut metadata = MetadataMap::new();
    metadata.insert("idempotency-expires", "600".parse().expect("metadata"));
    setup.server.fails([Status::with_metadata(Code::Unavailable, "away", metadata), Status::unavailable("away")]);
    let mut seen = Vec::new();
    for attempts in 1..=2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        setup.client.create_order(keyed("shop", "k-1")).await.expect_err("the server is away");
        let entries = async || setup.journal.entries().await.expect("the entries");
        until("the attempt is noted", async || entries().await.iter().all(|entry| entry.attempts == attempts)).await;
        seen.extend(entries().await.into_iter().map(|entry| (entry.written, entry.protected_until)));
    }
    assert!(seen[0].1.is_some());
    assert_eq!(seen[0], seen[1]);
}
