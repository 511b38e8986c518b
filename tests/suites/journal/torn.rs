//! Writes that are lost, reordered or halved by a crash: no acknowledged entry is lost, and none is found that was not written.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use prost::Message as _;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tonic_idempotency_client::{
    Key,
    journal::{JournalBuilder, JournalStore as _, RedbStore},
};

use super::prelude::*;
use super::{
    disk::Disk,
    foreign::Foreign,
    harness::{Directory, Setup, Watched, keyed, layer},
};

/// How many seeds are tried.
const SEEDS: u64 = if cfg!(feature = "full") { 5_000 } else { 200 };

/// The variable for the only seed to try.
const SEED: &str = "TORN_SEED";

/// The number of operations.
const OPERATIONS: usize = 48;

/// The number of changes of a large commit.
const LARGE: usize = 30;

/// The largest number of commits of a process.
const COMMITS: usize = 10;

/// The records of a store, by number.
type Records = BTreeMap<u64, Bytes>;

/// The records of each operation: as it is written, and after an attempt.
struct Operations {
    records: Vec<[Bytes; 2]>,
    /// The operation of each record.
    by_record: HashMap<Bytes, usize>,
}

impl Operations {
    /// Operations as a journal writes them.
    async fn new(builder: JournalBuilder) -> Self {
        let store = Watched::default();
        let journal = builder.in_place().store(store.clone()).expect("a journal");
        let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
        for number in 0..OPERATIONS {
            setup.server.fails([Status::unavailable("away")]);
            let length = if number % 12 == 0 { 5000 + 100 * number } else { number * 137 % 2000 };
            let request = keyed("shop", &format!("k-{number}"));
            let request = request.map(|it| CreateOrderRequest { padding: vec![number as u8; length], ..it });
            setup.client.create_order(request).await.expect_err("the server is away");
        }
        let mut records: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for change in store.commits().into_iter().flatten() {
            let Change::Put { id, record } = change else { panic!("{change:?}") };
            records.entry(id).or_default().push(record);
        }
        let records: Vec<[Bytes; 2]> =
            records.into_values().map(|both| both.try_into().expect("one attempt of each")).collect();
        let by_record = records.iter().enumerate().flat_map(|(of, both)| both.iter().map(move |it| (it.clone(), of)));
        Self { by_record: by_record.collect(), records }
    }
}

/// The processes of one seed, one after the other, and the records that each has to find.
struct Trial<'a> {
    operations: &'a Operations,
    random: StdRng,
    disk: Disk,
    /// The records of the commits that have returned.
    durable: Records,
    /// The changes of the commit that has not.
    cut_off: Vec<Change>,
    counts: Counts,
}

/// How often the disk has failed in an opening, how often it has died in a commit or between commits or has failed once in a commit, and
/// how often a commit that was cut off was found as a whole, or in part.
type Counts = BTreeMap<&'static str, u32>;

impl Trial<'_> {
    fn run(mut self, file: &Path) -> Result<Counts, String> {
        for _ in 0..self.random.random_range(2..7) {
            let few = self.random.random_bool(0.4);
            let writes = self.random.random_range(0..if few { 12 } else { 120 });
            self.disk.fails_after(writes, self.random.random_bool(0.7));
            match on(&self.disk, file) {
                Ok(store) => {
                    self.check(&store)?;
                    self.work(&store)?;
                }
                Err(JournalError::Store { .. }) if self.disk.has_failed() => self.count("opening"),
                Err(error) => return Err(format!("it does not open: {error:?}")),
            }
            fs::write(file, self.disk.crash(&mut self.random)).expect("a file");
        }
        let store = on(&self.disk, file).map_err(|error| format!("it does not open: {error:?}"))?;
        self.check(&store)?;
        Ok(self.counts)
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Commits changes, until the disk dies or there are enough.
    fn work(&mut self, store: &RedbStore) -> Result<(), String> {
        let mut next = 1 + self.durable.keys().last().copied().unwrap_or_default();
        let mut has_failed = self.disk.has_failed();
        for _ in 0..COMMITS {
            let changes = self.changes(&mut next);
            match store.commit(&changes) {
                Ok(()) => self.durable = after(self.durable.clone(), &changes),
                Err(_) if self.disk.is_dead() => {
                    self.cut_off = changes;
                    self.count("in a commit");
                    return Ok(());
                }
                // The store goes on with the commit or without it, whatever happens then.
                Err(_) if self.disk.has_failed() && !has_failed => {
                    has_failed = true;
                    let found = records(store)?;
                    if found != self.durable && found != after(self.durable.clone(), &changes) {
                        return Err(self.differs(&found, &changes));
                    }
                    self.durable = found;
                    self.count("failed");
                }
                Err(error) => return Err(format!("a commit fails: {error:?}")),
            }
        }
        self.count("between commits");
        Ok(())
    }

    /// The changes of a commit: new entries, notes of attempts, and ends. `next` is the number of the next entry.
    fn changes(&mut self, next: &mut u64) -> Vec<Change> {
        let mut records = self.durable.clone();
        let mut changes = Vec::new();
        let count = if self.random.random_bool(0.1) { LARGE } else { self.random.random_range(1..6) };
        for _ in 0..count {
            let known: Vec<_> = records.iter().map(|(id, record)| (*id, self.operations.by_record[record])).collect();
            let operation = self.random.random_range(0..OPERATIONS);
            let [written, noted] = &self.operations.records[operation];
            let any = (!known.is_empty()).then(|| known[self.random.random_range(0..known.len())]);
            let change = match (self.random.random_range(0..5), any) {
                (0, Some((id, of))) => Change::Put { id, record: self.operations.records[of][1].clone() },
                (1, Some((id, _))) => Change::Remove { id },
                _ => match known.iter().find(|(_, of)| *of == operation) {
                    Some((id, _)) => Change::Remove { id: *id },
                    None => {
                        let record = if self.random.random_bool(0.8) { written } else { noted }.clone();
                        *next += 1;
                        Change::Put { id: *next - 1, record }
                    }
                },
            };
            records = after(records, std::slice::from_ref(&change));
            changes.push(change);
        }
        changes
    }

    /// A commit that was cut off is there as a whole, or not at all but for new entries.
    fn check(&mut self, store: &RedbStore) -> Result<(), String> {
        let found = records(store)?;
        let cut_off = std::mem::take(&mut self.cut_off);
        if found == after(self.durable.clone(), &cut_off) && found != self.durable {
            self.count("whole");
        } else if found != self.durable {
            let operation = |record: &Bytes| self.operations.by_record.get(record);
            let mut known: BTreeSet<_> = self.durable.values().map(operation).collect();
            // At its own number, where a sealed record opens.
            let mut is_new = |(id, record): (&u64, &Bytes)| {
                let change = Change::Put { id: *id, record: record.clone() };
                cut_off.contains(&change) && known.insert(operation(record))
            };
            let (kept, new): (Records, Records) =
                found.clone().into_iter().partition(|(id, _)| self.durable.contains_key(id));
            if kept != self.durable || !new.iter().all(&mut is_new) {
                return Err(self.differs(&found, &cut_off));
            }
            self.count("part");
        }
        self.durable = found;
        Ok(())
    }

    fn differs(&self, found: &Records, last: &[Change]) -> String {
        let name = |(id, record): (u64, Bytes)| (id, self.operations.by_record.get(&record).copied());
        let [durable, found, last] = [self.durable.clone(), found.clone(), after(Records::new(), last)]
            .map(|records| records.into_iter().map(name).collect::<Vec<_>>());
        format!("as (number, operation): durable {durable:?}, put by the last commit {last:?}, found {found:?}")
    }
}

fn records(store: &RedbStore) -> Result<Records, String> {
    let read = |id| Ok((id, store.read(id)?.expect("it has the number")));
    let found = store.ids().and_then(|ids| ids.into_iter().map(read).collect());
    found.map_err(|error| format!("it cannot be read: {error:?}"))
}

/// The records after these changes.
fn after(mut records: Records, changes: &[Change]) -> Records {
    for change in changes {
        match change {
            Change::Put { id, record } => drop(records.insert(*id, record.clone())),
            Change::Remove { id } => drop(records.remove(id)),
            change => panic!("{change:?}"),
        }
    }
    records
}

/// A new journal without entries.
fn empty() -> Vec<u8> {
    let directory = Directory::new();
    RedbStore::open(directory.file()).expect("a journal");
    fs::read(directory.file()).expect("a file")
}

/// Opens a journal on a disk.
fn on(disk: &Disk, file: &Path) -> Result<RedbStore, JournalError> {
    let disk = disk.clone();
    RedbStore::open_on(file, move |file| disk.backend(file))
}

fn attempt(seed: u64, operations: &Operations, disk: Disk) -> Result<Counts, String> {
    let directory = Directory::new();
    fs::write(directory.file(), disk.content()).expect("a file");
    let (random, durable, cut_off, counts) = (StdRng::seed_from_u64(seed), Records::new(), Vec::new(), Counts::new());
    let trial = Trial { operations, random, disk, durable, cut_off, counts };
    let ran = catch_unwind(AssertUnwindSafe(|| trial.run(&directory.file())));
    ran.unwrap_or_else(|_| Err("it panics".to_owned()))
}

/// The seeds to try.
fn seeds(count: u64) -> Range<u64> {
    let alone = env::var(SEED).ok().map(|seed| seed.parse().expect("a seed"));
    alone.map_or(0..count, |seed| seed..seed + 1)
}

/// Whether the journal of a seed is sealed.
fn seals(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

fn builder(seed: u64) -> JournalBuilder {
    let builder = Journal::builder();
    if seals(seed) { builder.seal(Key::new("one", &[7; 32]).expect("a key")) } else { builder }
}

#[tokio::test]
async fn leave_each_entry_whose_commit_has_returned_and_none_that_was_not_written() {
    let (operations, empty) = ([Operations::new(builder(0)).await, Operations::new(builder(1)).await], empty());
    let mut all = Counts::new();
    for seed in seeds(SEEDS) {
        let counts = attempt(seed, &operations[usize::from(seals(seed))], Disk::new(empty.clone()));
        for (what, count) in counts.unwrap_or_else(|why| panic!("{SEED}={seed}: {why}")) {
            *all.entry(what).or_default() += count;
        }
    }
    let least = seeds(SEEDS).count() as u32 / 20;
    for what in ["opening", "in a commit", "between commits", "failed", "whole", "part"] {
        assert!(least == 0 || all.get(what) > Some(&least), "{what}: {all:?}");
    }
}

#[tokio::test]
async fn are_noticed_on_a_disk_that_forgets_what_was_synced() {
    let (operations, empty) = (Operations::new(builder(0)).await, empty());
    let found = (0..20).filter(|seed| attempt(*seed, &operations, Disk::new(empty.clone()).forgets()).is_err());
    assert!(found.count() > 12);
}

/// As each is durable before it is sent.
#[tokio::test]
async fn leave_the_entry_of_each_call_that_was_sent_and_not_answered() {
    let (server, empty) = (Foreign::default(), empty());
    let channel = server.channel().await;
    let mut unsent = 0;
    for seed in seeds(SEEDS / 3) {
        let (mut random, directory) = (StdRng::seed_from_u64(seed), Directory::new());
        let disk = Disk::new(empty.clone());
        let [mut called, mut unanswered] = [BTreeMap::new(), BTreeMap::new()];
        for process in 0..4 {
            fs::write(directory.file(), disk.crash(&mut random)).expect("a file");
            let is_last = process == 3;
            disk.fails_after(if is_last { u32::MAX } else { random.random_range(0..100) }, true);
            let journal = on(&disk, &directory.file()).and_then(|store| builder(seed).in_place().store(store));
            let journal = match journal {
                Err(error) if !disk.is_dead() => panic!("{SEED}={seed}: it does not open: {error:?}"),
                Err(_) => continue,
                Ok(journal) => journal,
            };
            let entries = journal.entries().await.expect("the entries");
            let entries: BTreeMap<_, _> =
                entries.iter().map(|entry| (entry.key.to_string(), entry.message())).collect();
            let has = |some: &BTreeMap<_, _>, other: &BTreeMap<_, _>| {
                some.iter().all(|(key, message)| other.get(key) == Some(message))
            };
            assert!(
                has(&unanswered, &entries) && has(&entries, &called),
                "{SEED}={seed}: {:?} of {:?}",
                entries.keys(),
                unanswered.keys()
            );
            let mut client = ShopClient::new(layer(&journal, |layer| layer.max_attempts(1)).layer(channel.clone()));
            for call in 0..10 {
                let (key, padding) = (format!("{process}-{call}"), vec![call; random.random_range(0..3000)]);
                let request = keyed("shop", &key).map(|it| CreateOrderRequest { padding, ..it });
                let message = Bytes::from(request.get_ref().encode_to_vec());
                server.clear();
                if random.random_bool(0.7) {
                    server.fails([Status::unavailable("away")]);
                }
                let answer = client.create_order(request).await;
                called.insert(key.clone(), message.clone());
                if server.seen().is_empty() {
                    assert!(disk.is_dead(), "{SEED}={seed}: {answer:?}");
                    unsent += 1;
                    break;
                }
                if answer.is_err() {
                    unanswered.insert(key, message);
                }
            }
        }
    }
    assert!(env::var(SEED).is_ok() || unsent > SEEDS / 6, "{unsent}");
}
