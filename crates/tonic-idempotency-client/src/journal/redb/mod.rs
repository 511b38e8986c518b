//! The store in a file.
//!
//! | module | holds |
//! |---|---|
//! | `backend` | the disk, which is verified whenever it is opened |
//! | `file` | the names of a journal's files |
//! | `frame` | a record's version and checksum |

mod backend;
mod file;
mod frame;

use std::{
    collections::HashSet,
    fs,
    io::{self, Seek as _, SeekFrom, Write as _},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use redb::{
    Database, Durability, Error, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition,
    backends::FileBackend,
};

use self::{backend::NeverClosed, frame::Frame};
use super::{
    Change, JournalError, JournalStore,
    entry::{Identity, identity, of_a_damaged_file},
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
/// commit of a process that was killed, it looks like a commit that was cut off.
#[derive(Debug)]
pub struct RedbStore {
    path: PathBuf,
    /// `None` after a failure: redb wants the file to be opened again.
    database: Mutex<Option<OpenDatabase>>,
}

impl RedbStore {
    /// Opens the file at this path, or makes it, readable by its owner alone.
    ///
    /// # Errors
    ///
    /// [`JournalError::InUse`] if the file is open already. [`JournalError::Full`] or [`JournalError::Store`] if the file cannot be made or
    /// read, or if it has nothing of a journal in it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let database = open_or_salvage(&path).map_err(|error| explain(&path, error))?;
        Ok(Self { path, database: Mutex::new(Some(database)) })
    }

    /// Runs `work` on the database. After a failure, the database is closed. `after_failure` then runs before the database is opened again.
    fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Error>,
        after_failure: impl FnOnce(&Path),
    ) -> Result<T, JournalError> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match database.take() {
            Some(open) => open,
            None => open(&self.path).map_err(|error| explain(&self.path, error))?,
        };
        match work(&open) {
            Ok(done) => {
                *database = Some(open);
                Ok(done)
            }
            Err(error) => {
                drop(open);
                after_failure(&self.path);
                Err(explain(&self.path, error))
            }
        }
    }
}

impl JournalStore for RedbStore {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        let after_failure = |path: &Path| {
            if let Err(error) = scrub(path) {
                tracing::warn!(journal = %path.display(), %error, "what a failed commit has written is still in the journal's file");
            }
        };
        self.with(|database| apply(database, changes), after_failure)
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        self.with(ids, |_| {})
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        self.with(|database| read(database, id), |_| {})
    }
}

/// An open database. Dropping it tells the backend that the database ends.
#[derive(Debug)]
struct OpenDatabase {
    database: Database,
    ends: Arc<AtomicBool>,
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
        _ => Err(Error::Corrupted(format!("the record {id} is damaged, or of another version"))),
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
fn open_or_salvage(path: &Path) -> Result<OpenDatabase, Error> {
    if !path.exists() {
        file::make(path, |unfinished| filled(unfinished, &[]))?;
    }
    // The content before redb repairs the file.
    let content = fs::read(path)?;
    let opened = match content.is_empty() {
        // The file of a journal is never empty.
        true => Err(Error::Corrupted("the file is empty".to_owned())),
        false => open(path),
    };
    match opened {
        Ok(database) => {
            keep_what_no_commit_has(&content, &database, path)?;
            // If a process died right after it had made the journal, the file still has two names.
            if let Err(error) = file::remove_unfinished(path) {
                tracing::debug!(journal = %path.display(), %error, "what other processes left is not removed");
            }
            Ok(database)
        }
        Err(error) if is_damage(&error) => {
            let found: Vec<_> = Frame::all(&content).map(|(_, frame)| frame).collect();
            if found.is_empty() && !content.is_empty() && !content.starts_with(b"redb") {
                return Err(error);
            }
            let records = last_of_each(found, &HashSet::new());
            let entries: Vec<_> = records.iter().filter_map(of_a_damaged_file).collect();
            let kept = file::replace(path, &content, |unfinished| filled(unfinished, &entries))?;
            tracing::warn!(
                journal = %path.display(), kept = %kept.display(), entries = entries.len(), %error,
                "the journal was damaged and is kept under another name; its operations, which may have ended, are in a new one as failed"
            );
            open(path)
        }
        Err(error) => Err(error),
    }
}

/// Opens the file, and verifies it.
fn open(path: &Path) -> Result<OpenDatabase, Error> {
    let open = create(FileBackend::new(file::open(path)?)?)?;
    for id in ids(&open)? {
        read(&open, id)?;
    }
    Ok(open)
}

/// Makes a file with these records.
fn filled(path: &Path, records: &[Bytes]) -> io::Result<()> {
    let put = |(id, record): (u64, &Bytes)| Change::Put { id, record: record.clone() };
    let changes: Vec<_> = (1..).zip(records).map(put).collect();
    let done = open(path).and_then(|database| apply(&database, &changes));
    done.map_err(|error| match error {
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
    let records = last_of_each(later, &known);
    tracing::info!(journal = %path.display(), entries = records.len(), "the last commit of the journal was cut off");
    let first = 1 + ids.last().copied().unwrap_or_default();
    let changes: Vec<_> = (first..).zip(records).map(|(id, record)| Change::Put { id, record }).collect();
    apply_after(lost, database, &changes)
}

/// Makes the records of a failed commit unreadable: its callers are told that their calls were not sent, so
/// [`keep_what_no_commit_has`] must not find them.
fn scrub(path: &Path) -> Result<(), Error> {
    let last = {
        let database = open(path)?;
        last_commit(&database.begin_read()?.open_table(COMMITS)?)?
    };
    let content = fs::read(path)?;
    let mut file = file::open(path)?;
    for (at, _) in Frame::all(&content).filter(|(_, frame)| frame.commit > last) {
        file.seek(SeekFrom::Start(at as u64))?;
        file.write_all(&[0])?;
    }
    Ok(file.sync_data()?)
}

/// Returns the last record of each operation that is not in `known`, in the order of the records' numbers.
fn last_of_each(mut found: Vec<Frame<'_>>, known: &HashSet<Identity>) -> Vec<Bytes> {
    found.sort_by_key(|frame| std::cmp::Reverse(frame.commit));
    let mut seen = HashSet::new();
    let mut records: Vec<_> = found
        .into_iter()
        .map(|frame| (frame.id, Bytes::copy_from_slice(frame.record)))
        .filter(|(_, record)| identity(record).is_some_and(|it| !known.contains(&it) && seen.insert(it)))
        .collect();
    records.sort_by_key(|(id, _)| *id);
    records.into_iter().map(|(_, record)| record).collect()
}

fn create(backend: impl StorageBackend) -> Result<OpenDatabase, Error> {
    let ends = Arc::new(AtomicBool::new(false));
    let backend = NeverClosed { inner: backend, ends: Arc::clone(&ends) };
    let database = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
    let open = OpenDatabase { database, ends };
    let transaction = open.begin_read()?;
    if transaction.open_table(RECORDS).is_err() || transaction.open_table(COMMITS).is_err() {
        // Makes the tables, so that readers find them.
        apply(&open, &[])?;
    }
    Ok(open)
}

/// Returns whether the cause of this error is the file's content, rather than the disk or its user.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Corrupted(_) | Error::UpgradeRequired(_) => true,
        Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
        ),
        _ => false,
    }
}

fn explain(path: &Path, error: Error) -> JournalError {
    let journal = path.display().to_string();
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
