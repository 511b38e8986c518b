//! A transaction that has locked a row: [`RowHold`].

use std::fmt;

use uuid::Uuid;

use super::{server::Database, stored_row::Id, transaction::Transaction};

/// A transaction of another client that has locked the row of a key, or has inserted one, until this is dropped: then it is rolled back.
pub struct RowHold {
    database: Database,
    session: u64,
}

impl Database {
    /// Has another client lock the row of a key, or insert one; `None` if a transaction has written it.
    pub fn hold(&self, owner: Uuid, key: Uuid) -> Option<RowHold> {
        RowHold::new(self, (owner, key))
    }
}

impl RowHold {
    /// Locks the row; `None` if another transaction has written it.
    fn new(database: &Database, id: Id) -> Option<Self> {
        let mut state = database.lock();
        if state.writer(id, None).is_some() {
            return None;
        }
        let (session, begun) = (state.log_in(None, false), state.now());
        let mut transaction = Transaction::new(begun);
        // It is never committed.
        transaction.work.rows.insert(id, None);
        state.session(session).transaction = Some(transaction);
        Some(Self { database: database.clone(), session })
    }

    /// Returns how many sessions wait for it, or for one that waits for it.
    pub fn waiting(&self) -> usize {
        let state = self.database.lock();
        state.sessions.keys().filter(|session| state.waits_behind(**session, self.session)).count()
    }
}

impl Drop for RowHold {
    fn drop(&mut self) {
        self.database.log_out(self.session);
    }
}

impl fmt::Debug for RowHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowHold").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
