//! The records: in memory, and as files, from which they come back.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::{
    fault::{Fault, Faults},
    record::Record,
    shop::now,
};

/// The age at which records are gone that are forgotten early.
const EARLY: Duration = Duration::from_secs(3);

#[derive(Clone, Default)]
pub(crate) struct Store {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
    /// `None` if records are kept in memory alone.
    folder: Option<PathBuf>,
}

/// The use that is made of a key.
#[derive(Clone)]
pub(crate) enum Entry {
    Running { procedure: String, hash: Option<Vec<u8>>, done: watch::Receiver<Option<Record>> },
    Done(Record),
}

impl Store {
    pub(crate) fn open(folder: &Path, faults: Faults) -> io::Result<Self> {
        if faults.has(Fault::MemoryOnly) {
            return Ok(Self::default());
        }
        let folder = folder.join("records");
        fs::create_dir_all(&folder)?;
        let mut entries = HashMap::new();
        for file in fs::read_dir(&folder)? {
            let path = file?.path();
            // With an extension, it is not written to its end.
            if path.extension().is_none() {
                let (id, record): (String, Record) = serde_json::from_slice(&fs::read(path)?)?;
                entries.insert(id, Entry::Done(record));
            }
        }
        Ok(Self { entries: Arc::new(Mutex::new(entries)), folder: Some(folder) })
    }

    /// Returns what is known of a key, after `change` has been made, with no other call between.
    pub(crate) fn look<T>(&self, id: &str, change: impl FnOnce(&mut Option<Entry>) -> T) -> T {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry = entries.remove(id);
        let seen = change(&mut entry);
        if let Some(entry) = entry {
            entries.insert(id.to_owned(), entry);
        }
        seen
    }

    pub(crate) fn free(&self, id: &str) {
        self.look(id, Option::take);
        if let Some(file) = self.file(id) {
            let _ = fs::remove_file(file);
        }
    }

    pub(crate) fn complete(&self, id: &str, record: &Record) {
        if let Some(file) = self.file(id) {
            let text = serde_json::to_vec(&(id, record)).expect("a record is JSON");
            let new = file.with_extension(now().to_string());
            fs::write(&new, text).and_then(|()| fs::rename(&new, &file)).expect("the folder can be written");
        }
        self.look(id, |entry| *entry = Some(Entry::Done(record.clone())));
    }

    /// The file of a key's record.
    fn file(&self, id: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(hex::encode(Sha256::digest(id))))
    }
}

impl Entry {
    pub(crate) fn is_expired(&self, faults: Faults) -> bool {
        let Self::Done(record) = self else { return false };
        faults.has(Fault::ExpiresEarly) && record.age() > EARLY
    }
}

impl Record {
    pub(crate) fn age(&self) -> Duration {
        Duration::from_nanos(now().saturating_sub(self.created))
    }
}
