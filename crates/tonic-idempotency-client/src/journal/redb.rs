//! The store in a file.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
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

/// The end of the name of a file that is no journal yet, and how often one is made.
const UNFINISHED: &str = ".new";
const ATTEMPTS: u32 = 10;

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
    if !path.exists() {
        make(path)?;
    }
    create(FileBackend::new(file(path)?)?)
}

/// Makes an empty journal under a name of its own, and gives it this one when it is whole and durable: a file that a process has left while it
/// wrote the first pages would never open again. If another process is faster, its journal counts.
fn make(path: &Path) -> io::Result<()> {
    for left in unfinished(path)? {
        // Of a process that has died; one that lives makes it once more.
        fs::remove_file(left).or_else(if_missing)?;
    }
    for _ in 0..ATTEMPTS {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{:016x}{UNFINISHED}", fastrand::u64(..)));
        let unfinished = PathBuf::from(name);
        let made = create(FileBackend::new(file(&unfinished)?).map_err(io::Error::other)?);
        drop(made.map_err(|error| match error {
            Error::Io(error) => error,
            error => io::Error::other(error),
        })?);
        let named = File::open(&unfinished).and_then(|file| file.sync_all()).and_then(|()| name_it(&unfinished, path));
        match named {
            Ok(()) => return sync_directory(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("other processes make it and remove it all the time"))
}

/// Gives a file this name, if no other has it.
fn name_it(unfinished: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(unfinished, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Ok(()) => {}
        // A file system without links.
        Err(_) => return fs::rename(unfinished, path),
    }
    fs::remove_file(unfinished).or_else(if_missing)
}

/// Returns what processes have left that died before their journal had its name.
fn unfinished(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(name), directory) = (path.file_name().and_then(OsStr::to_str), directory(path)) else {
        return Ok(Vec::new());
    };
    let is_unfinished = |other: &OsStr| {
        other
            .to_str()
            .and_then(|it| it.strip_prefix(name))
            .is_some_and(|it| it.starts_with('.') && it.ends_with(UNFINISHED))
    };
    let files = fs::read_dir(directory)?.filter_map(Result::ok);
    Ok(files.filter(|file| is_unfinished(&file.file_name())).map(|file| file.path()).collect())
}

fn if_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn directory(path: &Path) -> &Path {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
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
        File::open(directory(path))?.sync_all()?;
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
