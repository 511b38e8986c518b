//! The order of the entries of a lane.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{
    FutureExt as _,
    future::{join_all, poll_fn},
};
use tonic_idempotency_client::journal::Lane;

use super::prelude::*;
use super::{
    foreign::Answer,
    harness::{Setup, in_memory, kept, key, keyed},
};

fn in_lane(key: &str, lane: &str) -> Request<CreateOrderRequest> {
    let mut request = keyed("shop", key);
    request.extensions_mut().insert(Lane::new(lane));
    request
}

/// Three entries of the lane `a`, and one of `b` after the first.
async fn three_and_one(setup: &mut Setup) {
    let journaled = async |request, fails: bool| {
        setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), if fails { 3 } else { 0 }));
        let mut client = setup.client.clone();
        client.create_order(request).await.expect_err("the server is away, or it is not its turn")
    };
    journaled(in_lane("a-1", "a"), true).await;
    journaled(in_lane("b-1", "b"), true).await;
    for key in ["a-2", "a-3"] {
        let mut request = in_lane(key, "a");
        // Long enough to be written on a busy machine.
        request.set_timeout(Duration::from_millis(500));
        let behind = journaled(request, false).await;
        assert_eq!((behind.code(), kept(&behind)), (Code::DeadlineExceeded, Some(self::key(key))));
    }
    let seen = setup.server.seen();
    assert_eq!(seen.len(), 6, "those behind were not sent: {seen:?}");
}

#[tokio::test]
async fn is_the_one_in_which_they_were_written() {
    let mut setup = Setup::in_memory().await;
    three_and_one(&mut setup).await;
    let resumed = setup.journal.resume(setup.service.clone()).await;
    assert!(resumed.iter().all(|resumed| matches!(resumed.outcome, EntryOutcome::Answered(_))), "{resumed:?}");
    let seen = setup.server.seen();
    let of_a: Vec<_> = seen.iter().filter_map(|seen| seen.key()).filter(|key| key.starts_with('a')).collect();
    assert_eq!((of_a, seen.len()), (vec!["a-1", "a-2", "a-3"], 4));
}

#[tokio::test]
async fn holds_back_what_is_behind_an_entry_without_an_end_and_no_other_lane() {
    let journal = in_memory(|journal| journal.parallelism(1));
    let mut setup = Setup::new(journal).await;
    three_and_one(&mut setup).await;
    setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
    let resumed = setup.journal.resume(setup.service.clone()).await;
    let [a1, b1, a2, a3] = &resumed[..] else { panic!("{resumed:?}") };
    assert!(
        matches!(a1.outcome, EntryOutcome::Unresolved(_)) && matches!(b1.outcome, EntryOutcome::Answered(_)),
        "{resumed:?}"
    );
    assert!(matches!(a2.outcome, EntryOutcome::Behind) && matches!(a3.outcome, EntryOutcome::Behind), "{resumed:?}");
    assert_eq!(setup.keys().await, ["a-1", "a-2", "a-3"]);
    assert!(setup.server.seen().iter().all(|seen| !matches!(seen.key(), Some("a-2" | "a-3"))));
}

#[tokio::test]
async fn makes_a_call_wait_for_the_one_before_it() {
    let setup = Setup::in_memory().await;
    setup.server.answers([Answer::Nothing]);
    let call = |key: &'static str| {
        let mut client = setup.client.clone();
        tokio::spawn(async move { client.create_order(in_lane(key, "a")).await })
    };
    let first = call("a-1");
    until("the first is under way", async || setup.server.seen().len() == 1).await;
    let second = call("a-2");
    until("the second is written", async || setup.keys().await.len() == 2).await;
    assert!(setup.server.seen().is_empty());
    setup.journal.give_up(&key("a-1")).await.expect("the entries");
    second.await.expect("no panic").expect("an order");
    assert!(matches!(&setup.server.seen()[..], [seen] if seen.key() == Some("a-2")));
    first.abort();
}

#[tokio::test]
async fn wakes_each_call_for_its_own_turn() {
    const CALLS: usize = 300;
    let setup = Setup::in_memory().await;
    let polls = AtomicUsize::new(0);
    let calls = (0..CALLS).map(|number| {
        let (mut client, polls) = (setup.client.clone(), &polls);
        let mut call = Box::pin(async move { client.create_order(in_lane(&format!("a-{number}"), "a")).await });
        // With so many, each has a waker of its own.
        poll_fn(move |cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            call.poll_unpin(cx)
        })
    });
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls < 20 * CALLS, "{polls} polls of {CALLS} calls");
}
