//! A file that is damaged: nothing panics, no entry is changed, and none is lost without a word.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng};
use tonic_idempotency_client::{
    Key,
    journal::{Entry, JournalBuilder},
};

use super::prelude::*;
use super::{
    foreign::{Foreign, order},
    harness::{Directory, Setup, key, keyed},
};

/// How many files are damaged.
const VARIANTS: u64 = if cfg!(feature = "full") { 3000 } else { 300 };

/// The key of an entry, its procedure and its message; and its state.
pub(crate) type Entries = BTreeMap<String, (String, Bytes, EntryState)>;

async fn entries(journal: &Journal) -> Entries {
    let entries = journal.entries().await.expect("the entries");
    let one = |entry: Entry| (entry.key.to_string(), (entry.procedure.clone(), entry.message(), entry.state));
    entries.into_iter().map(one).collect()
}

/// The key of the last commit's entry.
const LAST: &str = "last";

/// A journal of entries that have not ended, among others that have: as its process closes it, and as one leaves it that is killed.
pub(crate) async fn journals(directory: &Directory, builder: JournalBuilder) -> (Entries, [Vec<u8>; 2]) {
    let journal = builder.open(directory.file()).expect("a journal");
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    for number in 0..60_usize {
        let padding = vec![number as u8; (number * 137) % 3000];
        let request = keyed("shop", &format!("k-{number}"));
        let request = request.map(|it| CreateOrderRequest { padding, ..it });
        if number % 3 != 1 {
            setup.server.fails([Status::unavailable("away")]);
        }
        // Every third is answered.
        drop(setup.client.create_order(request).await);
    }
    // The end of the last one has been written then.
    setup.server.fails([Status::unavailable("away")]);
    setup.client.create_order(keyed("last", LAST)).await.expect_err("the server is away");
    let entries = entries(&setup.journal).await;
    let killed = fs::read(directory.file()).expect("a file");
    drop(setup);
    (entries, [fs::read(directory.file()).expect("a file"), killed])
}

/// Damages a file in a way of this number.
fn damage(file: &mut Vec<u8>, seed: u64) -> &'static str {
    let mut random = StdRng::seed_from_u64(seed);
    let at = random.random_range(1..file.len());
    let end = file.len().min(at + random.random_range(1..8192));
    match seed % 6 {
        0 => {
            file[at] ^= 1 << random.random_range(0..8_u8);
            "a bit"
        }
        1 => {
            file[at..end].fill(0);
            "zeros"
        }
        2 => {
            random.fill_bytes(&mut file[at..end]);
            "garbage"
        }
        3 => {
            file[random.random_range(0..512)] ^= 1 << random.random_range(0..8_u8);
            "the head"
        }
        4 => {
            file.truncate(at);
            "its end"
        }
        _ => {
            let pages = file.len() / 4096;
            let (one, other) = (random.random_range(0..pages) * 4096, random.random_range(0..pages) * 4096);
            file.copy_within(one..one + 4096, other);
            "a page"
        }
    }
}

/// The names beside the journal's, without its lock's.
fn beside(path: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(path.parent().expect("a directory")).expect("a directory");
    let own = [path.to_owned(), path.with_extension("journal.lock")];
    files.map(|file| file.expect("a file").path()).filter(|other| !own.contains(other)).collect()
}

#[tokio::test]
async fn is_noticed_and_loses_nothing_without_a_word() {
    let sealed = || Journal::builder().seal(Key::new("one", &[7; 32]).expect("a key"));
    let (expected, open_files) = journals(&Directory::new(), Journal::builder()).await;
    let (same, sealed_files) = journals(&Directory::new(), sealed()).await;
    assert!(expected.len() == 41 && expected == same);
    let [mut untouched, mut set_aside, mut refused] = [0; 3];
    for seed in 0..VARIANTS {
        let directory = Directory::new();
        let is_of_a_killed_process = seed % 4 < 2;
        let files = if seed % 8 < 4 { &open_files } else { &sealed_files };
        let mut file = files[usize::from(is_of_a_killed_process)].clone();
        let what = damage(&mut file, seed);
        fs::write(directory.file(), &file).expect("a file");
        let opened = AssertUnwindSafe(async { Ok(entries(&sealed().open(directory.file())?).await) }).catch_unwind();
        let what = format!("{what}, {seed}");
        let found = match opened.await.unwrap_or_else(|_| panic!("{what}: it panics")) {
            Ok(found) => found,
            Err::<_, JournalError>(error) => {
                // Nothing of a journal is in it. It stays as it is.
                assert_eq!(fs::read(directory.file()).expect("a file"), file, "{what}: {error}");
                refused += 1;
                continue;
            }
        };
        for (key, (procedure, message, state)) in &found {
            match expected.get(key) {
                Some((of, with, _)) => assert!(procedure == of && message == with, "{what}: {key} is changed"),
                None => assert_eq!(*state, EntryState::Failed, "{what}: {key} has ended"),
            }
        }
        let kept = beside(&directory.file());
        match &kept[..] {
            [] => {
                // To the last commit of a killed process, damage is as a commit that was cut off.
                let mut lost = expected.keys().filter(|key| !found.contains_key(*key));
                assert!(
                    lost.all(|key| is_of_a_killed_process && key == LAST),
                    "{what}: entries are lost without a word"
                );
                untouched += 1;
            }
            [kept] => {
                assert_eq!(fs::read(kept).expect("a file"), file, "{what}");
                assert!(found.values().all(|(_, _, state)| *state == EntryState::Failed), "{what}");
                set_aside += 1;
            }
            more => panic!("{what}: {more:?}"),
        }
    }
    let all = VARIANTS;
    assert!(
        untouched > all / 10 && set_aside > all / 3 && refused < all / 10,
        "{untouched} {set_aside} {refused} of {all}"
    );
}

#[tokio::test]
async fn what_is_found_in_it_is_sent_again_when_somebody_says_so_and_new_calls_go_on() {
    let directory = Directory::new();
    let (expected, [mut file, _]) = journals(&directory, Journal::builder()).await;
    let middle = file.len() / 2;
    file.truncate(middle);
    fs::write(directory.file(), file).expect("a file");
    let mut setup = Setup::new(Journal::open(directory.file()).expect("a journal")).await;
    let found = entries(&setup.journal).await;
    setup.client.create_order(order("new")).await.expect("an order");
    assert!(setup.journal.resume(setup.service.clone()).await.is_empty());
    let one = found.keys().find(|key| expected.contains_key(*key)).expect("an entry");
    setup.server.seen();
    setup.journal.send_again(&key(one)).await.expect("an entry");
    assert_eq!(setup.journal.resume(setup.service.clone()).await.len(), 1);
    assert!(matches!(&setup.server.seen()[..], [seen] if seen.key() == Some(one)));
    assert_eq!(entries(&setup.journal).await.len(), found.len() - 1);
}
