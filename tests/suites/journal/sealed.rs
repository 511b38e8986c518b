//! A sealed journal: only the holder of its key reads it, and what does not open is neither sent nor lost.

use tonic_idempotency_client::{
    Key,
    journal::{Entry, JournalBuilder, JournalStore as _, Lane, Principal},
};

use super::prelude::*;
use super::{
    damage::journals,
    harness::{Directory, Setup, Watched, kept, key, keyed},
};

/// Only the holder of the key reads these.
const SECRETS: [&str; 3] = ["secret-message", "secret-metadata", "secret-lane"];

/// These stay in the open.
const OPEN: [&str; 3] = ["k-1", "/shop.v1.Shop/CreateOrder", "alice"];

fn key_of(id: &str) -> Key {
    Key::new(id, &[7; 32]).expect("a key")
}

fn journal() -> JournalBuilder {
    Journal::builder().pauses(Duration::from_millis(1), Duration::from_millis(10)).metadata(["x-secret"])
}

fn sealed() -> JournalBuilder {
    journal().seal(key_of("one"))
}

/// A request with this key, whose message, metadata and lane are secrets.
fn secret(key: &str) -> Request<CreateOrderRequest> {
    let [name, metadata, lane] = SECRETS;
    let mut request = keyed(name, key);
    request.metadata_mut().insert("x-secret", metadata.parse().expect("metadata"));
    // A second call of the lane would wait for the first.
    if key == "k-1" {
        request.extensions_mut().insert(Lane::new(lane));
    }
    request.extensions_mut().insert(Principal::new("alice"));
    request
}

/// Leaves calls with these keys in a journal. Ends the process, as far as the journal can tell.
async fn leave(journal: Journal, keys: &[&str]) {
    let mut setup = Setup::new(journal).await;
    for key in keys {
        setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
        setup.client.create_order(secret(key)).await.expect_err("the server is away");
        setup.server.clear();
    }
}

async fn entries(journal: &Journal) -> Vec<Entry> {
    journal.entries().await.expect("the entries")
}

/// Sends all entries. Returns the keys that the server has seen, each with all of its secrets.
async fn sent(journal: Journal) -> Vec<String> {
    let setup = Setup::new(journal).await;
    setup.journal.resume(setup.service.clone()).await;
    let seen = setup.server.seen();
    assert!(
        seen.iter().all(|seen| seen.message.name == SECRETS[0] && seen.headers["x-secret"] == SECRETS[1]),
        "{seen:?}"
    );
    assert!(entries(&setup.journal).await.iter().all(|entry| entry.state == EntryState::Failed));
    let mut keys: Vec<_> = seen.iter().map(|seen| seen.key().expect("a key").to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn tells_those_who_read_its_file_what_is_in_the_open() {
    for (journal, is_sealed) in [(journal(), false), (sealed(), true)] {
        let directory = Directory::new();
        leave(journal.open(directory.file()).expect("a journal"), &["k-1"]).await;
        let file = fs::read(directory.file()).expect("a file");
        let has = |text: &str| file.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(OPEN.into_iter().all(has), "sealed: {is_sealed}");
        for secret in SECRETS {
            assert_eq!(has(secret), !is_sealed, "{secret}");
        }
        let journal = sealed().open(directory.file()).expect("a journal");
        assert_eq!(entries(&journal).await[0].lane, Some(Lane::new(SECRETS[2])));
        assert_eq!(sent(journal).await, ["k-1"], "sealed: {is_sealed}");
    }
}

#[tokio::test]
async fn keeps_what_does_not_open_as_failed_and_sends_it_once_its_key_is_back() {
    for (other, why) in [
        (journal(), "this journal has no key"),
        (journal().seal(key_of("two")), "no key with the id \"one\""),
        (journal().seal(Key::new("one", &[8; 32]).expect("a key")), "another key"),
    ] {
        let directory = Directory::new();
        leave(sealed().open(directory.file()).expect("a journal"), &["k-1", "k-2"]).await;
        let (lines, _guard) = Lines::collect(LevelFilter::WARN);
        let mut setup = Setup::new(other.open(directory.file()).expect("a journal")).await;
        assert_eq!(lines.count("do not open"), 1);
        for entry in entries(&setup.journal).await {
            let error = entry.error.as_ref().expect("an error");
            assert!(entry.state == EntryState::Failed && error.message().contains(why), "{error:?}");
            assert_eq!((&*entry.procedure, entry.principal), (OPEN[1], Some(Principal::new("alice"))));
        }
        // Nothing sends it: no resumption, no worker, no application, no call.
        assert!(setup.journal.resume(setup.service.clone()).await.is_empty());
        let worker = setup.journal.spawn(setup.service.clone());
        setup.client.create_order(keyed("other", "k-3")).await.expect("an order");
        worker.shut_down().await;
        let error = setup.journal.send_again(&key("k-1")).await.expect_err("it does not open");
        assert!(format!("{error:?}").contains(why), "{error:?}");
        let error = setup.client.create_order(secret("k-1")).await.expect_err("it does not open");
        assert_eq!((error.code(), kept(&error)), (Code::Internal, Some(key("k-1"))), "{error:?}");
        assert_eq!(setup.server.seen().iter().filter_map(|seen| seen.key()).collect::<Vec<_>>(), ["k-3"]);
        assert_eq!(setup.journal.give_up(&key("k-2")).await.expect("an entry").len(), 1);
        drop(setup);
        assert_eq!(sent(sealed().open(directory.file()).expect("a journal")).await, ["k-1"], "{why}");
    }
}

#[tokio::test]
async fn opens_with_a_former_key_and_seals_with_the_first() {
    let directory = Directory::new();
    leave(sealed().open(directory.file()).expect("a journal"), &["k-1"]).await;
    let rotated = || journal().seal(key_of("two")).seal(key_of("one"));
    leave(rotated().open(directory.file()).expect("a journal"), &["k-2"]).await;
    let only_new = journal().seal(key_of("two")).open(directory.file()).expect("a journal");
    assert_eq!(
        entries(&only_new).await.iter().map(|entry| entry.state).collect::<Vec<_>>(),
        [EntryState::Failed, EntryState::Waiting]
    );
    drop(only_new);
    assert_eq!(sent(rotated().open(directory.file()).expect("a journal")).await, ["k-1", "k-2"]);
}

#[tokio::test]
async fn takes_no_two_keys_with_one_id() {
    let twice = sealed().seal(Key::new("one", &[8; 32]).expect("a key"));
    let error = twice.in_memory().expect_err("two keys");
    assert!(format!("{error:?}").contains("two keys have the id \"one\""), "{error:?}");
}

/// A record that was changed, cut, or put at another number.
#[tokio::test]
async fn keeps_a_changed_record_as_failed_and_one_that_was_moved_too() {
    let store = Watched::default();
    leave(sealed().store(store.clone()).expect("a journal"), &["k-1"]).await;
    let record = store.read(1).expect("a store").expect("a record");
    // The key in the open, which has to stay readable.
    let key_at = record.windows(3).position(|part| part == b"k-1").expect("the key");
    let mut of_another_key = record.to_vec();
    of_another_key[key_at + 2] = b'2';
    let mut changed = record.to_vec();
    *changed.last_mut().expect("a byte") ^= 1;
    // The number in the open, which the envelope follows.
    let number_at = record.windows(3).position(|part| part == [0x28, 1, 0x32]).expect("the number");
    let mut of_another_number = record.to_vec();
    of_another_number[number_at + 1] = 2;
    for (what, id, record) in [
        ("the key", 1, of_another_key),
        ("the seal", 1, changed),
        ("the number", 2, of_another_number),
        ("the place", 2, record.to_vec()),
    ] {
        store.commit(&[1, 2].map(|id| Change::Remove { id })).expect("a store");
        store.commit(&[Change::Put { id, record: record.into() }]).expect("a store");
        let setup = Setup::new(sealed().store(store.clone()).expect("a journal")).await;
        let found = entries(&setup.journal).await;
        assert!(matches!(&found[..], [one] if one.state == EntryState::Failed), "{what}: {found:?}");
        assert!(
            setup.journal.resume(setup.service.clone()).await.is_empty() && setup.server.seen().is_empty(),
            "{what}"
        );
    }
    // One that was moved can be read, and is sent if the application says so.
    let setup = Setup::new(sealed().store(store).expect("a journal")).await;
    assert_eq!(setup.journal.send_again(&key("k-1")).await.expect("an entry").len(), 1);
    assert_eq!(setup.journal.resume(setup.service.clone()).await.len(), 1);
    assert_eq!(setup.server.seen()[0].message.name, SECRETS[0]);
}

/// The records of a damaged file are as sealed as they were.
#[tokio::test]
async fn is_salvaged_without_its_key_and_read_with_it() {
    let directory = Directory::new();
    let (expected, [mut file, _]) = journals(&directory, Journal::builder().seal(key_of("one"))).await;
    file.truncate(file.len() / 2);
    fs::write(directory.file(), file).expect("a file");
    let without = entries(&Journal::open(directory.file()).expect("a journal")).await;
    assert!(without.iter().all(|entry| entry.state == EntryState::Failed && entry.message().is_empty()));
    let mut setup = Setup::new(sealed().open(directory.file()).expect("a journal")).await;
    let found = entries(&setup.journal).await;
    assert!(found.len() == without.len() && found.len() > 10, "{}", found.len());
    for entry in &found {
        let error = entry.error.as_ref().expect("an error");
        assert!(entry.state == EntryState::Failed && error.code() == Code::DataLoss, "{error:?}");
        if let Some((_, message, _)) = expected.get(&entry.key.to_string()) {
            assert_eq!(entry.message(), message);
        }
    }
    assert!(setup.journal.resume(setup.service.clone()).await.is_empty());
    setup.client.create_order(keyed("new", "new")).await.expect("an order");
    setup.server.seen();
    let one = found.iter().find(|entry| expected.contains_key(&entry.key.to_string())).expect("an entry");
    setup.journal.send_again(&one.key).await.expect("an entry");
    assert_eq!(setup.journal.resume(setup.service.clone()).await.len(), 1);
    assert!(matches!(&setup.server.seen()[..], [seen] if seen.key() == Some(&one.key.to_string())));
}
