//! Sending what an earlier process has left.

use prost::Message as _;
use tonic_idempotency_client::journal::Resumed;
use tonic_idempotency_tests::shop::proto::CreateOrderReply;

use super::prelude::*;
use super::{
    foreign::{CREATE_ORDER, Foreign, order},
    harness::{Directory, Setup, keyed, keys},
};

/// A report to the application, and the keys of the journal at that time.
type Told = (Resumed, Vec<String>);

#[tokio::test]
async fn sends_each_entry_with_the_key_message_and_metadata_of_the_call() {
    let directory = Directory::new();
    let journal = Journal::builder().metadata(["x-tenant"]).open(directory.file()).expect("a journal");
    let mut first = Setup::new(journal).await;
    for key in ["k-1", "k-2", "k-3"] {
        first.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
        let mut request = keyed("shop", key);
        request.metadata_mut().insert("x-tenant", "a".parse().expect("metadata"));
        first.client.create_order(request).await.expect_err("the server is away");
    }
    let server = first.server.clone();
    let before = server.seen();
    drop(first);
    let journal = Journal::open(directory.file()).expect("a journal");
    let second = Setup::with(server, journal, |layer| layer).await;
    assert_eq!(second.keys().await, ["k-1", "k-2", "k-3"]);
    second.server.fails([Status::unavailable("away")]);
    let resumed = second.journal.resume(second.service.clone()).await;
    let told: Vec<_> = resumed.iter().map(|resumed| (resumed.key.to_string(), resumed.procedure.as_str())).collect();
    assert_eq!(told, ["k-1", "k-2", "k-3"].map(|key| (key.to_owned(), CREATE_ORDER)));
    assert!(resumed.iter().all(|resumed| matches!(resumed.outcome, EntryOutcome::Answered(_))), "{resumed:?}");
    let seen = second.server.seen();
    assert_eq!(seen.len(), 4, "the layer has tried once more");
    for call in &seen {
        let of_before = before.iter().find(|before| before.key() == call.key()).expect("a known key");
        assert_eq!(of_before.message, call.message);
        for name in ["x-tenant", "content-type", "te"] {
            assert_eq!(of_before.headers.get(name), call.headers.get(name), "{name}");
        }
    }
    drop(second);
    assert!(keys(&Journal::open(directory.file()).expect("a journal")).await.is_empty());
}

#[tokio::test]
async fn tells_the_application_of_an_outcome_before_the_entry_ends() {
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let handle: Arc<Mutex<Option<Journal>>> = Arc::default();
    let (telling, journal_of) = (Arc::clone(&told), Arc::clone(&handle));
    let journal = Journal::builder().on_outcome(move |resumed| {
        let (telling, journal) = (Arc::clone(&telling), journal_of.lock().expect("no panic").clone());
        async move {
            let left = keys(&journal.expect("a journal")).await;
            telling.lock().expect("no panic").push((resumed, left));
        }
    });
    let journal = journal.in_memory().expect("a journal");
    *handle.lock().expect("no panic") = Some(journal.clone());
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    setup.leave(["k-1"]).await;
    // Only its caller gets the outcome of a call.
    setup.client.create_order(keyed("shop", "k-2")).await.expect("an order");
    setup.server.fails([Status::unavailable("away")]);
    setup.journal.resume(setup.service.clone()).await;
    assert!(told.lock().expect("no panic").is_empty(), "nothing is known yet");
    setup.journal.resume(setup.service.clone()).await;
    let told = std::mem::take(&mut *told.lock().expect("no panic"));
    let [(resumed, left)] = &told[..] else { panic!("{told:?}") };
    let EntryOutcome::Answered(reply) = &resumed.outcome else { panic!("{resumed:?}") };
    assert_eq!(reply.decode::<CreateOrderReply>(), Ok(CreateOrderReply::default()));
    assert_eq!(CreateOrderRequest::decode(resumed.request.clone()), Ok(order("shop")));
    assert_eq!((resumed.key.to_string(), left.as_slice()), ("k-1".to_owned(), &["k-1".to_owned()][..]));
    assert!(setup.keys().await.is_empty());
    // The function has the journal, and the journal the function.
    *handle.lock().expect("no panic") = None;
}
