//! A file of which a commit was cut off, or has failed, and one of another version.

use std::time::UNIX_EPOCH;

use super::*;

fn put(id: u64) -> Change {
    Change::Put { id, record: vec![id as u8; 600 * (1 + id as usize % 3)].into() }
}

/// The disk of the file at this path.
fn disk(path: &Path) -> JournalDisk {
    JournalDisk::new(LockedPath::lock(path).expect("a journal"), |file| Box::new(file))
}

/// A file with one entry, and another of a commit that was cut off, in a part of the file that no commit has.
fn cut_off(directory: &Path) -> PathBuf {
    let path = directory.join("orders.journal");
    let store = RedbStore::open(&path).expect("a journal");
    store.commit(&[Change::Put { id: 1, record: entry("k-1") }]).expect("a commit");
    drop(store);
    let table =
        open(&disk(&path)).expect("a journal").begin_read().expect("a read").open_table(COMMITS).expect("a table");
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
            super::super::record::identity(&store.read(id).expect("a journal").expect("an entry")).expect("an entry");
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
    scrub(&disk(&path)).expect("a journal");
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
        let database = open(&disk(path)).expect("a journal");
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
