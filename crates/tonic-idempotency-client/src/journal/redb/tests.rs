//! A disk that loses what was not synchronized: whole writes, and parts of them.

use std::{
    io,
    sync::{Arc, Mutex},
    time::UNIX_EPOCH,
};

use super::*;

/// An operation on a disk.
#[derive(Clone, Debug)]
enum Deed {
    Resize(u64),
    Sync,
    Write(u64, Vec<u8>),
}

/// A disk that notes what is done to it. Clones are the same one.
#[derive(Clone, Debug, Default)]
struct Disk {
    content: Arc<Mutex<Vec<u8>>>,
    deeds: Arc<Mutex<Vec<Deed>>>,
}

impl Disk {
    /// The disk after these deeds.
    fn after(deeds: &[Deed]) -> Self {
        let disk = Self::default();
        for deed in deeds {
            match deed {
                Deed::Resize(length) => disk.set_len(*length).expect("a disk"),
                Deed::Sync => {}
                Deed::Write(offset, data) => disk.write(*offset, data).expect("a disk"),
            }
        }
        disk
    }

    fn note(&self, deed: Deed) {
        self.deeds.lock().expect("no panic").push(deed);
    }

    /// How much has been done.
    fn done(&self) -> usize {
        self.deeds.lock().expect("no panic").len()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().expect("no panic").len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = offset as usize;
        out.copy_from_slice(&self.content.lock().expect("no panic")[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.note(Deed::Resize(length));
        self.content.lock().expect("no panic").resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.note(Deed::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.note(Deed::Write(offset, data.to_vec()));
        let offset = offset as usize;
        self.content.lock().expect("no panic")[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn open_on(disk: &Disk) -> OpenDatabase {
    opened(disk.clone(), NeverClosed::written).expect("a database")
}

fn put(id: u64) -> Change {
    Change::Put { id, record: vec![id as u8; 600 * (1 + id as usize % 3)].into() }
}

/// The commits of a journal: puts, and removals of every third.
fn commits() -> impl Iterator<Item = Vec<Change>> {
    (1..=20).map(|id| match id % 3 {
        0 => vec![put(id), Change::Remove { id: id - 1 }],
        _ => vec![put(id)],
    })
}

/// Returns the ids of the entries after this number of commits.
fn expected(commits_done: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    for change in commits().take(commits_done).flatten() {
        match change {
            Change::Put { id, .. } => ids.push(id),
            Change::Remove { id } => ids.retain(|other| *other != id),
        }
    }
    ids
}

#[test]
fn a_commit_is_synchronized_before_it_returns() {
    let disk = Disk::default();
    let store = open_on(&disk);
    for changes in commits() {
        let before = disk.done();
        apply(&store, &changes).expect("a commit");
        let deeds = disk.deeds.lock().expect("no panic")[before..].to_vec();
        let last_write = deeds.iter().rposition(|deed| matches!(deed, Deed::Write(..))).expect("a write");
        assert!(deeds[last_write..].iter().any(|deed| matches!(deed, Deed::Sync)), "{deeds:?}");
    }
}

/// Ends a journal at every write, with that one torn in the middle, and with some of those lost that were not synchronized.
#[test]
fn a_torn_write_loses_no_earlier_entry() {
    let disk = Disk::default();
    let journal = open_on(&disk);
    apply(&journal, &[]).expect("a commit");
    let begun = disk.done();
    let mut ends = Vec::new();
    for changes in commits() {
        apply(&journal, &changes).expect("a commit");
        ends.push(disk.done());
    }
    let deeds = disk.deeds.lock().expect("no panic").clone();
    let mut torn_in_a_commit = 0;
    for cut in begun..*ends.last().expect("commits") {
        let done = ends.iter().filter(|end| **end <= cut).count();
        let synced = deeds[..cut].iter().rposition(|deed| matches!(deed, Deed::Sync)).unwrap_or(0);
        for loss in 0..4 {
            let mut left = deeds[..cut].to_vec();
            match (&deeds[cut], loss) {
                (Deed::Write(offset, data), 0 | 1) => {
                    left.push(Deed::Write(*offset, data[..data.len() * (1 + loss) / 3].to_vec()));
                }
                (_, 0 | 1) => {}
                // The disk writes in the order that it likes.
                _ => {
                    let mut place = 0;
                    left.retain(|deed| {
                        place += 1;
                        place <= synced + 1 || !matches!(deed, Deed::Write(..)) || place % 2 == loss % 2
                    });
                }
            }
            let left = Disk::after(&left);
            let opened = open_on(&left);
            let ids = ids(&opened).expect("a journal");
            assert!(ids == expected(done) || ids == expected(done + 1), "{ids:?} after {done} commits, cut at {cut}");
            for id in ids {
                let Change::Put { record, .. } = put(id) else { unreachable!() };
                assert_eq!(read(&opened, id).expect("a journal"), Some(record), "cut at {cut}");
            }
            torn_in_a_commit += usize::from(!ends.contains(&cut));
        }
    }
    assert!(torn_in_a_commit > 100, "{torn_in_a_commit}");
}

/// A file with one entry, and another of a commit that was cut off, in a part of the file that no commit has.
fn cut_off(directory: &Path) -> PathBuf {
    let path = directory.join("orders.journal");
    let store = RedbStore::open(&path).expect("a journal");
    store.commit(&[Change::Put { id: 1, record: entry("k-1") }]).expect("a commit");
    drop(store);
    let table = open(&path).expect("a journal").begin_read().expect("a read").open_table(COMMITS).expect("a table");
    let last = last_commit(&table).expect("a number");
    let record = entry("k-2");
    let frame = Frame { commit: 1 + last, id: 2, record: &record }.encode();
    let mut content = fs::read(&path).expect("a file");
    let empty = content.chunks(4096).rposition(|page| page.iter().all(|byte| *byte == 0)).expect("an empty page");
    content[empty * 4096..][..frame.len()].copy_from_slice(&frame);
    fs::write(&path, content).expect("a file");
    path
}

fn entry(key: &str) -> Bytes {
    let (mut parts, ()) =
        http::Request::post("http://shop/shop.v1.Orders/Create").body(()).expect("a request").into_parts();
    parts.headers.insert("idempotency-key", key.parse().expect("a key"));
    super::super::Entry::of(&parts, Bytes::from_static(b"\0\0\0\0\x02hi"), None, |_| true).expect("a key").encode()
}

fn keys(path: &Path) -> Vec<String> {
    let store = RedbStore::open(path).expect("a journal");
    let keys = store.ids().expect("a journal").into_iter().map(|id| {
        let (_, key) =
            super::super::entry::identity(&store.read(id).expect("a journal").expect("an entry")).expect("an entry");
        key.to_string()
    });
    keys.collect()
}

/// Either the process died before it could report the commit, or redb fell back to the commit before a damaged one.
#[test]
fn what_the_last_commit_has_written_is_kept_once() {
    let directory = Directory::new();
    let path = cut_off(&directory.0);
    for _ in 0..3 {
        assert_eq!(keys(&path), ["k-1", "k-2"]);
    }
    RedbStore::open(&path).expect("a journal").commit(&[Change::Remove { id: 2 }]).expect("a commit");
    assert_eq!(keys(&path), ["k-1"]);
}

/// Its callers were told that their calls were not sent.
#[test]
fn what_a_failed_commit_has_written_is_no_entry() {
    let directory = Directory::new();
    let path = cut_off(&directory.0);
    scrub(&path).expect("a journal");
    assert_eq!(keys(&path), ["k-1"]);
}

/// Otherwise a second store could have it before it is opened again; and a write may need space.
#[test]
fn stays_its_owners_after_a_failure_and_is_read_without_a_write() {
    let directory = Directory::new();
    let path = directory.0.join("orders.journal");
    let store = RedbStore::open(&path).expect("a journal");
    store.commit(&[put(1)]).expect("a commit");
    drop(store.database().take());
    let second = RedbStore::open(&path).expect_err("it has an owner");
    assert!(matches!(second, JournalError::InUse { .. }), "{second:?}");
    file::open(&path).and_then(|file| file.set_modified(UNIX_EPOCH)).expect("a time");
    for _ in 0..2 {
        let Change::Put { record, .. } = put(1) else { unreachable!() };
        assert_eq!((store.ids().expect("a journal"), store.read(1).expect("a journal")), (vec![1], Some(record)));
    }
    assert_eq!(fs::metadata(&path).and_then(|file| file.modified()).expect("a time"), UNIX_EPOCH);
    store.commit(&[put(2)]).expect("a commit");
    assert_eq!(store.ids().expect("a journal"), [1, 2]);
}

/// The place of the version in both headers of redb.
const VERSIONS: [usize; 2] = [64, 192];

#[test]
fn that_is_of_another_version_is_refused_untouched() {
    let newer = |path: &Path| {
        let database = open(path).expect("a journal");
        let transaction = database.begin_write().expect("a transaction");
        let frame = [&[0xc9, 0xfd, 0xe7, 7][..], &[7; 40]].concat();
        transaction.open_table(RECORDS).expect("a table").insert(9, &frame[..]).expect("a record");
        transaction.commit().expect("a commit");
    };
    let with = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let mut content = fs::read(path).expect("a file");
        change(&mut content);
        fs::write(path, content).expect("a file");
    };
    let of_redb = |version| move |content: &mut Vec<u8>| VERSIONS.iter().for_each(|at| content[*at] = version);
    type Case<'a> = (&'a dyn Fn(&Path), &'a str);
    let cases: [Case<'_>; 4] = [
        (&newer, "version 7"),
        // What it cannot read may be more than what is damaged.
        (&|path| (newer(path), with(path, &|content| content[16..64].fill(0))).1, "version 7"),
        (&|path| with(path, &of_redb(2)), "version 2"),
        (&|path| with(path, &of_redb(4)), "found 4"),
    ];
    for (case, (make, version)) in cases.into_iter().enumerate() {
        let directory = Directory::new();
        let path = directory.0.join("orders.journal");
        let store = RedbStore::open(&path).expect("a journal");
        store.commit(&[Change::Put { id: 1, record: entry("k-1") }]).expect("a commit");
        drop(store);
        make(&path);
        let content = fs::read(&path).expect("a file");
        let refused = RedbStore::open(&path).expect_err("another version").to_string();
        assert!(refused.contains(version) && refused.contains("orders.journal"), "{case}: {refused}");
        assert!(fs::read(&path).expect("a file") == content, "{case}: it is changed");
        assert!(!path.with_extension("journal.damaged").exists(), "{case}");
    }
}

/// A new directory, removed with its contents when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("idempotency-redb-{:016x}", fastrand::u64(..)));
        fs::create_dir(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Fails if it was removed already.
        let _ = fs::remove_dir_all(&self.0);
    }
}
