//! The store in a file.
//!
//! | module | holds |
//! |---|---|
//! | `backend`, `overlay` | the disk, which is verified whenever it is opened, and is written or only read |
//! | `disk` | the file as a disk |
//! | `file` | the names of a journal's files |
//! | `frame` | a record's version and checksum |
//! | `lock` | the owner of a journal |

mod backend;
mod disk;
mod file;
mod frame;
mod lock;
mod overlay;

use std::{
    collections::HashSet,
    fmt, fs, io,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use redb::{
    Database, Durability, Error, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition,
    backends::FileBackend,
};

use self::{
    backend::NeverClosed,
    disk::JournalDisk,
    frame::{Frame, newer, newer_among},
    lock::LockedPath,
};
use super::{
    Change, JournalError, JournalStore,
    entry::Identity,
    record::{identity, of_a_damaged_file},
};

const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

/// The number of the last commit.
const COMMITS: TableDefinition<'_, (), u64> = TableDefinition::new("commits");

/// The memory for pages of the file, in bytes.
const CACHE: usize = 16 << 20;

/// A store in a file, on [redb](https://www.redb.org). A commit ends with fsync. If a crash tears a write, the commits before it remain.
///
/// The file is verified whenever it is opened: each page, and each record by a checksum of its own. A damaged file is kept under another
/// name, with `.damaged` at its end. A new file takes its place. The new file has all entries that could be read. They are marked as
/// [failed](super::EntryState::Failed), because they may have ended before. A warning is logged. One damage is not noticed: in the last
/// commit of a process that was killed, it looks like a commit that was cut off. An empty file may have had entries, too: a warning is
/// logged, and a new journal takes its place.
///
/// From before the file is read until the store is dropped, the process holds a lock of the system on the file `NAME.lock` beside it, behind
/// links. That file stays. If the process dies, the system unlocks it. On NFS, the lock holds between machines if the server has locks, and
/// the file system is not mounted with `nolock` or `local_lock`; with these, it holds between the processes of one machine. Without
/// locks, no journal is opened.
///
/// After a commit that has failed, as on a full disk, records are read without a write; the next commit opens the file again.
#[derive(Debug)]
pub struct RedbStore {
    /// The path that the application has given.
    name: PathBuf,
    /// `None` after a failure.
    database: Mutex<Option<OpenDatabase>>,
    /// Dropped last.
    disk: JournalDisk,
}

impl RedbStore {
    /// Opens the file at this path, or makes it, readable only by its owner.
    ///
    /// # Errors
    ///
    /// [`JournalError::InUse`] if the file is open already. [`JournalError::Version`] if it is of a version that this one does not read.
    /// [`JournalError::Full`] or [`JournalError::Store`] if the file cannot be made, locked or read, if it is no regular file, or if it has
    /// nothing of a journal in it. A file that is refused is unchanged.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::open_on(path, |file| Box::new(file))
    }

    /// Opens the file as [`open`](Self::open) does, on the disk that is made of it whenever it is opened. Only for tests.
    #[doc(hidden)]
    pub fn open_on(
        path: impl Into<PathBuf>,
        make_disk: impl Fn(FileBackend) -> Box<dyn StorageBackend> + Send + Sync + 'static,
    ) -> Result<Self, JournalError> {
        let name = path.into();
        let locked = LockedPath::lock(&name).map(|path| JournalDisk::new(path, make_disk));
        let opened = locked.and_then(|disk| Ok((open_or_salvage(&disk)?, disk)));
        let (database, disk) = opened.map_err(|error| explain(&name, error))?;
        Ok(Self { name, database: Mutex::new(Some(database)), disk })
    }

    fn database(&self) -> MutexGuard<'_, Option<OpenDatabase>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, changes: &[Change]) -> Result<(), Error> {
        let mut database = self.database();
        let open = match database.take().filter(|open| open.takes_changes) {
            Some(open) => open,
            None => open(&self.disk)?,
        };
        if let Err(error) = apply(&open, changes) {
            // redb wants the file to be opened again.
            drop(open);
            *database = scrub(&self.disk)
                .inspect_err(|error| {
                    tracing::warn!(journal = %self.name.display(), %error, "what a failed commit has written is still in the journal's file");
                })
                .ok();
            return Err(error);
        }
        *database = Some(open);
        Ok(())
    }

    fn look<T>(&self, look: impl FnOnce(&Database) -> Result<T, Error>) -> Result<T, JournalError> {
        let mut database = self.database();
        let looked = database.take().map_or_else(|| open_to_read(&self.disk), Ok).and_then(|open| {
            let found = look(&open)?;
            *database = Some(open);
            Ok(found)
        });
        looked.map_err(|error| explain(&self.name, error))
    }
}

impl JournalStore for RedbStore {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        self.change(changes).map_err(|error| explain(&self.name, error))
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        self.look(ids)
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        self.look(|database| read(database, id))
    }
}

/// An open database. Dropping it tells the backend that the database ends.
#[derive(Debug)]
struct OpenDatabase {
    database: Database,
    ends: Arc<AtomicBool>,
    /// Whether its changes reach the file.
    takes_changes: bool,
}

impl Deref for OpenDatabase {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
    }
}

fn ids(database: &Database) -> Result<Vec<u64>, Error> {
    let table = database.begin_read()?.open_table(RECORDS)?;
    table.iter()?.map(|row| Ok(row?.0.value())).collect()
}

fn read(database: &Database, id: u64) -> Result<Option<Bytes>, Error> {
    let table = database.begin_read()?.open_table(RECORDS)?;
    let Some(value) = table.get(id)? else { return Ok(None) };
    match Frame::read(value.value()) {
        Some(frame) if frame.id == id => Ok(Some(Bytes::copy_from_slice(frame.record))),
        _ => match newer(value.value()) {
            Some(version) => Err(NewerFrame(version).into()),
            None => Err(Error::Corrupted(format!("the record {id} is damaged"))),
        },
    }
}

fn apply(database: &Database, changes: &[Change]) -> Result<(), Error> {
    apply_after(0, database, changes)
}

/// Applies changes in a commit with a number larger than `last`.
fn apply_after(last: u64, database: &Database, changes: &[Change]) -> Result<(), Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    let commit = 1 + last_commit(&transaction.open_table(COMMITS)?)?.max(last);
    transaction.open_table(COMMITS)?.insert((), commit)?;
    let mut table = transaction.open_table(RECORDS)?;
    for change in changes {
        match change {
            Change::Put { id, record } => {
                drop(table.insert(id, &Frame { commit, id: *id, record }.encode()[..])?);
            }
            Change::Remove { id } => drop(table.remove(id)?),
        }
    }
    drop(table);
    Ok(transaction.commit()?)
}

/// The number of the last commit.
fn last_commit(table: &impl redb::ReadableTable<(), u64>) -> Result<u64, Error> {
    Ok(table.get(())?.map_or(0, |number| number.value()))
}

/// Opens the file at this path, or makes it. A damaged file is replaced by a new one, with all entries that can be read.
fn open_or_salvage(disk: &JournalDisk) -> Result<OpenDatabase, Error> {
    if let Err(error) = file::remove_unfinished(disk) {
        tracing::debug!(journal = %disk.display(), %error, "what other processes left is not removed");
    }
    let length = file::length(disk)?;
    if length == Some(0) {
        tracing::warn!(journal = %disk.display(), "the file of the journal is empty, and may have had entries; a new journal takes its place");
    }
    if length.unwrap_or_default() == 0 {
        file::make(disk, |unfinished| filled(unfinished, &[]))?;
    }
    // The content before redb repairs the file.
    let content = fs::read(&**disk)?;
    match open_to_read(disk).map(drop) {
        Ok(()) => {
            let database = open(disk)?;
            keep_what_no_commit_has(&content, &database, disk)?;
            Ok(database)
        }
        Err(error) if is_damage(&error) => salvage(disk, &content, error),
        Err(error) => Err(error),
    }
}

/// Replaces a damaged file by a new one, with all entries that can be read.
fn salvage(disk: &JournalDisk, content: &[u8], error: Error) -> Result<OpenDatabase, Error> {
    if let Some(version) = newer_among(content) {
        return Err(NewerFrame(version).into());
    }
    let found: Vec<_> = Frame::all(content).map(|(_, frame)| frame).collect();
    if found.is_empty() && !content.starts_with(b"redb") {
        return Err(error);
    }
    let records = last_of_each(found, &HashSet::new()).into_iter();
    let failed = records.filter_map(|(id, record)| Some((id, of_a_damaged_file(&record)?)));
    let entries = numbered(failed, &[]);
    let kept = file::replace(disk, content, |unfinished| filled(unfinished, &entries))?;
    tracing::warn!(
        journal = %disk.display(), kept = %kept.display(), entries = entries.len(), %error,
        "the journal was damaged and is kept under another name; its operations, which may have ended, are in a new one as failed"
    );
    open(disk)
}

/// Opens a file that was [read](open_to_read) before.
fn open(disk: &JournalDisk) -> Result<OpenDatabase, Error> {
    opened(disk.open()?, NeverClosed::written)
}

/// Opens the file without changing it, and verifies it.
fn open_to_read(disk: &JournalDisk) -> Result<OpenDatabase, Error> {
    let open = opened(disk.open()?, NeverClosed::only_read)?;
    for id in ids(&open)? {
        read(&open, id)?;
    }
    last_commit(&open.begin_read()?.open_table(COMMITS)?)?;
    Ok(open)
}

/// Makes a file with these changes.
fn filled(path: &Path, changes: &[Change]) -> io::Result<()> {
    let made = file::open_or_make(path).map_err(Error::from).and_then(|file| {
        let database = opened(Box::new(FileBackend::new(file)?), NeverClosed::written)?;
        // With the tables, so that readers find them.
        apply(&database, changes)
    });
    made.map_err(|error| match error {
        Error::Io(error) => error,
        error => io::Error::other(error),
    })
}

/// Keeps the operations of a commit that is later than the database's last one. There are two causes. The process died and cut the commit
/// off, before any caller was told. Or the commit was damaged, and redb took the one before it. In both cases, the operations are to be
/// sent.
fn keep_what_no_commit_has(content: &[u8], database: &Database, path: &Path) -> Result<(), Error> {
    let last = last_commit(&database.begin_read()?.open_table(COMMITS)?)?;
    let later: Vec<_> = Frame::all(content).map(|(_, frame)| frame).filter(|frame| frame.commit > last).collect();
    let Some(lost) = later.iter().map(|frame| frame.commit).max() else { return Ok(()) };
    let mut known = HashSet::new();
    let ids = ids(database)?;
    for id in &ids {
        known.extend(read(database, *id)?.and_then(|record| identity(&record)));
    }
    let changes = numbered(last_of_each(later, &known), &ids);
    tracing::info!(journal = %path.display(), entries = changes.len(), "the last commit of the journal was cut off");
    apply_after(lost, database, &changes)
}

/// Puts records that were found, each at its own number, where a sealed one opens; at a free one if that is taken.
fn numbered(records: impl IntoIterator<Item = (u64, Bytes)>, taken: &[u64]) -> Vec<Change> {
    let records: Vec<_> = records.into_iter().collect();
    let own: HashSet<_> = records.iter().map(|(id, _)| id).chain(taken).copied().collect();
    let mut free = (1..).filter(|id| !own.contains(id));
    let mut used: HashSet<_> = taken.iter().copied().collect();
    let put = |(id, record)| {
        let id = if used.insert(id) { id } else { free.next().unwrap_or(id) };
        Change::Put { id, record }
    };
    records.into_iter().map(put).collect()
}

/// Makes the records of a failed commit unreadable: its callers are told that their calls were not sent, so
/// [`keep_what_no_commit_has`] must not find them. Returns the database as it is without them, to be read.
fn scrub(disk: &JournalDisk) -> Result<OpenDatabase, Error> {
    let database = open_to_read(disk)?;
    let last = last_commit(&database.begin_read()?.open_table(COMMITS)?)?;
    let content = fs::read(&**disk)?;
    let written = disk.open()?;
    for (at, _) in Frame::all(&content).filter(|(_, frame)| frame.commit > last) {
        written.write(at as u64, &[0])?;
    }
    written.sync_data()?;
    Ok(database)
}

/// Returns the last record of each operation that is not in `known`, in the order of the records' numbers.
fn last_of_each(mut found: Vec<Frame<'_>>, known: &HashSet<Identity>) -> Vec<(u64, Bytes)> {
    found.sort_by_key(|frame| std::cmp::Reverse(frame.commit));
    let mut seen = HashSet::new();
    let mut records: Vec<_> = found
        .into_iter()
        .map(|frame| (frame.id, Bytes::copy_from_slice(frame.record)))
        .filter(|(_, record)| identity(record).is_some_and(|it| !known.contains(&it) && seen.insert(it)))
        .collect();
    records.sort_by_key(|(id, _)| *id);
    records
}

/// Opens a database on a disk that is written, or only read.
fn opened(
    disk: Box<dyn StorageBackend>,
    way: impl FnOnce(Box<dyn StorageBackend>, Arc<AtomicBool>) -> io::Result<NeverClosed>,
) -> Result<OpenDatabase, Error> {
    let ends = Arc::new(AtomicBool::new(false));
    let backend = way(disk, Arc::clone(&ends))?;
    let takes_changes = !backend.is_only_read();
    let database = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
    Ok(OpenDatabase { database, ends, takes_changes })
}

/// Returns whether the cause of this error is the file's content, rather than the disk or its user.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Corrupted(_) => other_version(error).is_none(),
        Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
        ),
        _ => false,
    }
}

/// A record of a newer version.
#[derive(Debug)]
struct NewerFrame(u8);

impl fmt::Display for NewerFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its records have the version {}", self.0)
    }
}

impl std::error::Error for NewerFrame {}

impl From<NewerFrame> for Error {
    fn from(newer: NewerFrame) -> Self {
        io::Error::new(io::ErrorKind::Unsupported, newer).into()
    }
}

/// Returns the version of a file, in words, if the cause of this error is that this program cannot read it.
fn other_version(error: &Error) -> Option<String> {
    match error {
        // As redb says of a version that is newer than its own.
        Error::Corrupted(why) if why.contains("file format version") => Some(why.clone()),
        Error::UpgradeRequired(_) => Some(error.to_string()),
        Error::Io(cause) => cause.get_ref()?.downcast_ref().map(NewerFrame::to_string),
        _ => None,
    }
}

fn explain(path: &Path, error: Error) -> JournalError {
    let journal = path.display().to_string();
    if let Some(version) = other_version(&error) {
        return JournalError::Version { journal, version };
    }
    match &error {
        Error::DatabaseAlreadyOpen => JournalError::InUse { journal },
        Error::Io(cause) if is_full(cause) => JournalError::Full { journal, source: Arc::new(error) },
        _ => JournalError::store(journal, error),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests;
