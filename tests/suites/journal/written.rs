//! The calls that are written to the journal: which, when, and which of their parts.

use tonic::{metadata::MetadataValue, service::interceptor::InterceptedService};
use tonic_idempotency_client::{
    Reason, Unresolved,
    journal::{JournalStore as _, Principal},
};

use super::prelude::*;
use super::{
    foreign::{CREATE_ORDER, GET_ORDER, order},
    harness::{Setup, Watched, in_memory, kept, key, keyed, layer},
};

async fn watched() -> (Watched, Setup) {
    let store = Watched::default();
    let journal = Journal::builder().store(store.clone()).expect("a journal");
    (store, Setup::new(journal).await)
}

#[tokio::test]
async fn a_call_is_durable_before_it_is_sent() {
    let (store, Setup { mut client, journal, server, .. }) = watched().await;
    store.hold();
    let call = tokio::spawn(async move { client.create_order(order("shop")).await });
    until("the call is being written", async || store.holds_one()).await;
    assert!(server.seen().is_empty() && journal.entries().await.expect("the entries").is_empty());
    store.let_go();
    call.await.expect("no panic").expect("an order");
    assert_eq!(server.seen().len(), 1);
    assert!(journal.entries().await.expect("the entries").is_empty());
    drop(journal);
    until(
        "its end is written",
        async || matches!(&store.commits()[..], [.., last] if matches!(last[..], [.., Change::Remove { .. }])),
    )
    .await;
}

#[tokio::test]
async fn a_call_that_cannot_be_written_is_not_sent() {
    let (store, mut setup) = watched().await;
    let io = || std::io::Error::from(std::io::ErrorKind::StorageFull);
    for (error, code) in [
        (JournalError::store("orders.journal", io()), Code::Internal),
        (JournalError::InUse { journal: "orders.journal".to_owned() }, Code::Internal),
    ] {
        store.fail(Some(error));
        let refused = setup.client.create_order(order("shop")).await.expect_err("no journal");
        assert_eq!(refused.code(), code);
        assert!(
            refused.message().starts_with("the call was not sent: ") && refused.message().contains("orders.journal")
        );
        assert!(kept(&refused).is_none());
        assert!(setup.server.seen().is_empty() && setup.keys().await.is_empty());
    }
    store.fail(None);
    setup.client.create_order(order("shop")).await.expect("an order");
}

#[tokio::test]
async fn an_entry_whose_commit_has_failed_is_removed_with_the_next_one() {
    let (store, mut setup) = watched().await;
    store.fail(Some(JournalError::InUse { journal: String::new() }));
    setup.client.create_order(order("shop")).await.expect_err("no journal");
    store.fail(None);
    setup.client.create_order(order("shop")).await.expect("an order");
    let commits = store.commits();
    let [_, second, ..] = &commits[..] else { panic!("{commits:?}") };
    assert!(matches!(second[..], [Change::Remove { id: 1 }, Change::Put { id: 2, .. }]), "{second:?}");
}

#[tokio::test]
async fn an_end_that_cannot_be_written_is_tried_again() {
    let (store, mut setup) = watched().await;
    setup.leave(["k-1"]).await;
    store.fail(Some(JournalError::InUse { journal: String::new() }));
    setup.journal.resume(setup.service.clone()).await;
    let ended = |commit: &Vec<Change>| matches!(commit[..], [.., Change::Remove { .. }]);
    until("its end has failed", async || store.commits().last().is_some_and(ended)).await;
    assert!(store.ids().is_ok_and(|ids| ids.len() == 1) && setup.keys().await.is_empty());
    store.fail(None);
    until("its end is written", async || store.ids().is_ok_and(|ids| ids.is_empty())).await;
}

#[tokio::test]
async fn calls_at_the_same_time_share_a_commit() {
    let (store, Setup { client, server, .. }) = watched().await;
    store.hold();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.create_order(order("shop")).await })
        })
        .collect();
    until("the first call is being written", async || store.holds_one()).await;
    tokio::task::yield_now().await;
    store.let_go();
    for call in calls {
        call.await.expect("no panic").expect("an order");
    }
    assert_eq!(server.seen().len(), 50);
    let puts = |commit: &&Vec<Change>| commit.iter().any(|change| matches!(change, Change::Put { .. }));
    let commits = store.commits().iter().filter(puts).count();
    assert!(commits <= 10, "{commits} commits for 50 calls");
}

#[tokio::test]
async fn a_call_that_is_repeatable_or_not_opted_in_is_not_written_down() {
    let (store, setup) = watched().await;
    let repeatable = layer(&setup.journal, |layer| layer.repeatable(GET_ORDER)).layer(setup.server.channel().await);
    for mut client in [setup.client.clone(), ShopClient::new(repeatable)] {
        client.get_order(order("shop")).await.expect("an order");
    }
    assert!(store.commits().is_empty());
    assert!(setup.server.seen().iter().all(|seen| seen.key().is_none()));
}

#[tokio::test]
async fn an_entry_has_the_metadata_that_is_named_and_what_is_not_kept_is_said_once() {
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let mut setup = Setup::new(in_memory(|journal| journal.metadata(["X-Tenant", "x-signed"]))).await;
    setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
    let mut request = keyed("shop", "k-1");
    for (name, value) in
        [("authorization", "1234"), ("x-auth", "1234"), ("session", "1234"), ("dpop", "1234"), ("x-tenant", "a")]
    {
        request.metadata_mut().insert(name, value.parse().expect("metadata"));
    }
    for (name, value) in [("traceparent", "00-1"), ("accept-language", "de")] {
        request.metadata_mut().insert(name, value.parse().expect("metadata"));
    }
    let mut sensitive: MetadataValue<_> = "1234".parse().expect("metadata");
    sensitive.set_sensitive(true);
    request.metadata_mut().insert("x-signed", sensitive);
    request.extensions_mut().insert(Principal::new("alice"));
    setup.client.create_order(request).await.expect_err("the server is away");
    let told = r#"names=["authorization", "x-auth", "session", "dpop"]"#;
    let mut again = keyed("shop", "k-9");
    again.metadata_mut().insert("x-other", "1234".parse().expect("metadata"));
    setup.client.create_order(again).await.expect("an order");
    assert_eq!(
        (lines.count(told), lines.count("JournalBuilder::metadata")),
        (1, 1),
        "it is said once: {}",
        lines.take()
    );
    let entries = async || setup.journal.entries().await.expect("the entries");
    until("the attempts are noted", async || entries().await.iter().all(|entry| entry.attempts == 3)).await;
    let entries = entries().await;
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(entry.procedure, CREATE_ORDER);
    assert_eq!((entry.state, entry.principal.clone()), (EntryState::Waiting, Some(Principal::new("alice"))));
    let export = setup.journal.export().await.expect("the entries");
    assert!(
        [
            r#""key":"k-1""#,
            r#""principal":"alice""#,
            r#"["x-tenant","a"]"#,
            r#"["traceparent","00-1"]"#,
            r#"["accept-language","de"]"#
        ]
        .iter()
        .all(|part| export.contains(part))
            && !export.contains("1234"),
        "{export}"
    );
}

/// No call waits for the disk beyond its deadline.
#[tokio::test]
async fn a_call_whose_journal_is_slow_ends_with_its_deadline_and_is_not_sent() {
    let (store, mut setup) = watched().await;
    store.hold();
    let mut request = keyed("shop", "k-1");
    request.set_timeout(Duration::from_millis(100));
    let late = setup.client.create_order(request).await.expect_err("the disk is slow");
    let unresolved = Unresolved::of(&late).expect("it may be sent later");
    assert_eq!((late.code(), unresolved.attempts, unresolved.in_journal), (Code::DeadlineExceeded, 0, false));
    assert_eq!(unresolved.key, key("k-1"));
    assert!(setup.server.seen().is_empty());
    store.let_go();
    until("it is written", async || setup.keys().await == ["k-1"]).await;
    // The same call is the same operation.
    setup.client.create_order(keyed("shop", "k-1")).await.expect("an order");
    assert_eq!((setup.server.seen().len(), setup.keys().await.len()), (1, 0));
}

/// It may have been sent before.
#[tokio::test]
async fn a_call_whose_entry_cannot_be_read_is_unresolved() {
    let (store, mut setup) = watched().await;
    setup.leave(["k-1"]).await;
    store.fail_to_read(Some(JournalError::store("a disk", "it is broken")));
    let refused = setup.client.create_order(keyed("shop", "k-1")).await.expect_err("no journal");
    let unresolved = Unresolved::of(&refused).expect("it may have been sent");
    assert_eq!((unresolved.attempts, unresolved.in_journal, setup.server.seen().len()), (0, true, 0));
    store.fail_to_read(None);
    setup.client.create_order(keyed("shop", "k-1")).await.expect("an order");
}

#[tokio::test]
async fn an_interceptor_inside_the_layer_finds_the_caller_and_adds_the_credentials_again() {
    let setup = Setup::in_memory().await;
    let authenticate = |mut request: Request<()>| {
        let principal = request.extensions().get::<Principal>().ok_or_else(|| Status::internal("no principal"))?;
        let token = format!("Bearer {}", principal.as_str()).parse().expect("metadata");
        request.metadata_mut().insert("authorization", token);
        Ok(request)
    };
    let channel = InterceptedService::new(setup.server.channel().await, authenticate);
    let service = layer(&setup.journal, |layer| layer.max_attempts(1)).layer(channel);
    setup.server.fails([Status::unavailable("away")]);
    let mut request = keyed("shop", "k-1");
    request.extensions_mut().insert(Principal::new("alice"));
    ShopClient::new(service.clone()).create_order(request).await.expect_err("the server is away");
    setup.journal.resume(service).await;
    let seen = setup.server.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.headers.get("authorization").is_some_and(|token| token == "Bearer alice")));
}

#[tokio::test]
async fn the_key_of_an_entry_is_refused_for_another_request() {
    let mut setup = Setup::in_memory().await;
    setup.leave(["k-1"]).await;
    let refused = setup.client.create_order(keyed("another", "k-1")).await.expect_err("another request");
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::InvalidArgument, Some(Reason::KeyReused)));
    assert!(setup.server.seen().is_empty());
    // The same request is the same operation: there is one entry, which ends.
    setup.client.create_order(keyed("shop", "k-1")).await.expect("an order");
    assert!(setup.keys().await.is_empty());
    assert!(setup.journal.give_up(&key("k-1")).await.expect("the entries").is_empty());
}
