//! The contract of a store, and the store in memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

use super::JournalError;

/// Keeps the records of a journal: a durable map from numbers to bytes.
///
/// The methods block. A journal calls [`commit`](Self::commit) from a thread of its own, with all changes that wait at that moment, so
/// that calls which come at the same time share one write to the disk; and the others from tokio's threads for blocking work.
pub trait JournalStore: Send + Sync + 'static {
    /// Applies these changes in their order, all of them or none. They are durable when it returns: they survive a crash of the
    /// process and of the machine.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if they may not be durable. The journal then removes the records that it tried to put, with the next changes.
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError>;

    /// Returns the numbers of all records, in ascending order.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read.
    fn ids(&self) -> Result<Vec<u64>, JournalError>;

    /// Returns the record with this number.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read.
    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError>;
}

/// A change of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Adds a record, or replaces it.
    Put {
        /// The record's number.
        id: u64,
        /// The record.
        record: Bytes,
    },
    /// Removes a record, if it exists.
    Remove {
        /// The record's number.
        id: u64,
    },
}

/// A store in memory. Its entries survive a lost connection, and not the process.
#[derive(Debug, Default)]
pub struct MemoryJournalStore {
    records: Mutex<BTreeMap<u64, Bytes>>,
}

impl JournalStore for MemoryJournalStore {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            match change {
                Change::Put { id, record } => records.insert(*id, record.clone()),
                Change::Remove { id } => records.remove(id),
            };
        }
        Ok(())
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        Ok(self.records.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect())
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        Ok(self.records.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned())
    }
}
