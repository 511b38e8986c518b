//! What ends an entry, and what does not.

use std::time::Duration;

use tonic::{Code, Response, Status, metadata::MetadataMap};
use tonic_idempotency_client::journal::{EntryState, Journal, Outcome};
use tonic_idempotency_tests::until;

use super::{
    foreign::{Answer, Foreign},
    harness::{Setup, in_memory, key, keyed},
};

#[tokio::test(start_paused = true)]
async fn an_answer_that_no_retry_can_change_ends_an_entry() {
    let mut setup = Setup::in_memory().await;
    setup.client.create_order(keyed("shop", "k-1")).await.expect("an order");
    for code in [Code::NotFound, Code::Internal, Code::Unauthenticated] {
        setup.server.fails([Status::new(code, "")]);
        let refused = setup.client.create_order(keyed("shop", "k-2")).await.expect_err("an error");
        assert_eq!((refused.code(), Journal::kept(&refused)), (code, None));
        assert!(setup.keys().await.is_empty(), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_outcome_nobody_knows_leaves_its_entry_and_its_caller_hears_of_it() {
    let mut setup = Setup::in_memory().await;
    setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
    let away = setup.client.create_order(keyed("shop", "k-1")).await.expect_err("the attempts are used up");
    assert_eq!((away.code(), Journal::kept(&away)), (Code::Unavailable, Some(key("k-1"))));
    setup.server.answers([Answer::Nothing]);
    let mut request = keyed("shop", "k-2");
    request.set_timeout(Duration::from_secs(1));
    let late = setup.client.create_order(request).await.expect_err("the deadline is over");
    // The channel has a clock, too, which says `CANCELLED`.
    assert!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late:?}");
    assert_eq!(Journal::kept(&late), Some(key("k-2")));
    setup.server.fails([Status::unavailable("away"), Status::unauthenticated("expired")]);
    let expired = setup.client.create_order(keyed("shop", "k-3")).await.expect_err("the credentials have expired");
    assert_eq!((expired.code(), Journal::kept(&expired)), (Code::Unauthenticated, Some(key("k-3"))));
    assert_eq!(setup.keys().await, ["k-1", "k-2", "k-3"]);
    assert!(setup.journal.entries().await.expect("the entries").iter().all(|entry| entry.state == EntryState::Waiting));
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

#[tokio::test(start_paused = true)]
async fn an_entry_older_than_its_key_is_protected_is_reported_and_not_sent() {
    let journal = in_memory(|journal| journal.max_age(Duration::ZERO));
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    setup.server.fails([Status::unavailable("away")]);
    setup.client.create_order(keyed("shop", "k-1")).await.expect_err("the server is away");
    setup.server.seen();
    for _ in 0..2 {
        let resumed = setup.journal.resume(setup.service.clone()).await;
        assert!(matches!(&resumed[..], [resumed] if matches!(resumed.outcome, Outcome::Expired { .. })), "{resumed:?}");
    }
    let refused = setup.client.create_order(keyed("shop", "k-1")).await.expect_err("it could happen twice");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(setup.server.seen().is_empty());
    let given_up = setup.journal.give_up(&key("k-1")).await.expect("the entries");
    assert!(matches!(&given_up[..], [entry] if entry.key == key("k-1")), "{given_up:?}");
    assert!(setup.keys().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_may_say_that_it_forgets_a_key_sooner() {
    let mut setup = Setup::in_memory().await;
    for (key, expires, is_sent) in [("k-1", "0", false), ("k-2", "3600", true)] {
        let mut metadata = MetadataMap::new();
        metadata.insert("idempotency-expires", expires.parse().expect("metadata"));
        let in_progress = || Status::with_metadata(Code::Unavailable, "", metadata.clone());
        setup.server.fails(std::iter::repeat_with(in_progress).take(3));
        setup.client.create_order(keyed("shop", key)).await.expect_err("the server is busy");
        setup.server.seen();
        let resumed = setup.journal.resume(setup.service.clone()).await;
        let outcome = &resumed.last().expect("an entry").outcome;
        assert_eq!(matches!(outcome, Outcome::Answered(_)), is_sent, "{outcome:?}");
        assert_eq!(setup.server.seen().len(), usize::from(is_sent));
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_have_expired_do_not_end_an_entry_that_is_resumed() {
    let mut setup = Setup::in_memory().await;
    setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
    setup.client.create_order(keyed("shop", "k-1")).await.expect_err("the server is away");
    for (status, ends) in [(Status::unauthenticated("expired"), false), (Status::not_found("gone"), true)] {
        setup.server.fails([status.clone()]);
        let resumed = setup.journal.resume(setup.service.clone()).await;
        let outcome = resumed.into_iter().next().expect("an entry").outcome;
        let (Outcome::Unresolved(said) | Outcome::Failed(said)) = &outcome else { panic!("{outcome:?}") };
        assert_eq!((said.code(), matches!(outcome, Outcome::Failed(_))), (status.code(), ends));
        assert_eq!(setup.keys().await.is_empty(), ends);
    }
}

#[tokio::test]
async fn an_entry_that_is_given_up_is_not_sent_any_more() {
    let mut setup = Setup::in_memory().await;
    setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 6));
    for key in ["k-1", "k-2"] {
        setup.client.create_order(keyed("shop", key)).await.expect_err("the server is away");
    }
    setup.server.seen();
    assert_eq!(setup.journal.give_up(&key("k-1")).await.expect("the entries").len(), 1);
    setup.journal.resume(setup.service.clone()).await;
    assert!(matches!(&setup.server.seen()[..], [seen] if seen.key() == Some("k-2")));
    let answered: Response<_> = setup.client.create_order(keyed("shop", "k-1")).await.expect("an order");
    drop(answered);
}
