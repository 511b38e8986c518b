//! The store in a file.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use redb::{
    Database, Durability, Error, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition,
    TableError, backends::FileBackend,
};

use super::{Change, JournalError, JournalStore};

const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

/// The memory for pages of the file, in bytes.
const CACHE: usize = 16 << 20;

/// A store in a file, on [redb](https://www.redb.org). A commit ends with fsync. A write that is torn by a crash leaves the commits
/// before it.
#[derive(Debug)]
pub struct RedbStore {
    path: PathBuf,
    /// `None` after a failure: redb wants the file to be opened again.
    database: Mutex<Option<Database>>,
}

impl RedbStore {
    /// Opens the file at this path, or makes it, readable by its owner alone.
    ///
    /// # Errors
    ///
    /// [`JournalError::InUse`] if it is open already; [`JournalError::Full`] and [`JournalError::Store`] if it cannot be made or read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let database = open(&path).map_err(|error| explain(&path, error))?;
        Ok(Self { path, database: Mutex::new(Some(database)) })
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Error>) -> Result<T, JournalError> {
        let mut database: MutexGuard<'_, _> = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match database.take() {
            Some(open) => open,
            None => open(&self.path).map_err(|error| explain(&self.path, error))?,
        };
        let done = work(&open).map_err(|error| explain(&self.path, error))?;
        *database = Some(open);
        Ok(done)
    }
}

impl JournalStore for RedbStore {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        self.with(|database| apply(database, changes))
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(RECORDS)?;
            let ids: Result<_, Error> = table.iter()?.map(|row| Ok(row?.0.value())).collect();
            ids
        })
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(RECORDS)?;
            Ok(table.get(id)?.map(|record| Bytes::copy_from_slice(record.value())))
        })
    }
}

fn apply(database: &Database, changes: &[Change]) -> Result<(), Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    let mut table = transaction.open_table(RECORDS)?;
    for change in changes {
        match change {
            Change::Put { id, record } => drop(table.insert(id, &record[..])?),
            Change::Remove { id } => drop(table.remove(id)?),
        }
    }
    drop(table);
    Ok(transaction.commit()?)
}

fn open(path: &Path) -> Result<Database, Error> {
    let is_new = !path.exists();
    let database = create(FileBackend::new(file(path)?)?)?;
    if is_new {
        sync_directory(path)?;
    }
    Ok(database)
}

fn create(backend: impl StorageBackend) -> Result<Database, Error> {
    let database = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
    match database.begin_read()?.open_table(RECORDS) {
        Ok(_) => {}
        // So that readers find it.
        Err(TableError::TableDoesNotExist(_)) => apply(&database, &[])?,
        Err(error) => return Err(error.into()),
    }
    Ok(database)
}

/// Opens the file, which has the messages of calls: only its owner may read it.
fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes the name of a new file durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
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
