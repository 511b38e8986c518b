//! Writes the changes. In a thread for that, those that wait at one moment are one commit.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Change, JournalError, JournalStore, index::Index};

/// The largest number of changes of one commit.
const MOST: usize = 1024;

/// The time after which removals that have failed are tried again, if there is nothing else to write.
const AGAIN: Duration = Duration::from_secs(1);

/// The way to the store. Dropping it waits until all changes are written.
pub(crate) enum Writer {
    Thread { commands: Option<mpsc::Sender<Command>>, thread: Option<JoinHandle<()>> },
    InPlace(Scribe),
}

#[derive(Debug)]
pub(crate) struct Command {
    change: Change,
    purpose: Purpose,
    done: Option<oneshot::Sender<Result<(), JournalError>>>,
}

/// The purpose of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A new entry, which must not be sent before it is durable.
    Write,
    /// New facts about an entry, such as its attempts or its error.
    Note,
    /// The end of an entry.
    End,
}

impl Writer {
    pub(crate) fn start(store: Arc<dyn JournalStore>, index: Arc<Index>, in_place: bool) -> std::io::Result<Self> {
        let scribe = Scribe { store, index, owed: Vec::new() };
        if in_place {
            return Ok(Self::InPlace(scribe));
        }
        let (commands, received) = mpsc::channel();
        let thread = thread::Builder::new().name("idempotency-journal".to_owned());
        let thread = thread.spawn(move || scribe.write(&received))?;
        Ok(Self::Thread { commands: Some(commands), thread: Some(thread) })
    }

    /// Hands a change over. The receiver tells when it is durable.
    pub(crate) fn hand(&mut self, change: Change, purpose: Purpose) -> oneshot::Receiver<Result<(), JournalError>> {
        let (done, receiver) = oneshot::channel();
        let command = Command { change, purpose, done: Some(done) };
        match self {
            // The thread ends after the last sender; without it, the receiver fails.
            Self::Thread { commands, .. } => drop(commands.as_ref().map(|commands| commands.send(command))),
            Self::InPlace(scribe) => scribe.commit(vec![command]),
        }
        receiver
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let Self::Thread { commands, thread } = self else { return };
        *commands = None;
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes changes to the store.
pub(crate) struct Scribe {
    store: Arc<dyn JournalStore>,
    index: Arc<Index>,
    /// The removals that the store has not taken.
    owed: Vec<Change>,
}

impl Scribe {
    fn write(mut self, commands: &mpsc::Receiver<Command>) {
        loop {
            let first = match commands.recv_timeout(if self.owed.is_empty() { Duration::MAX } else { AGAIN }) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut batch = Vec::from_iter(first);
            batch.extend(commands.try_iter().take(MOST - 1));
            self.commit(batch);
        }
        if !self.owed.is_empty()
            && let Err(error) = self.store.commit(&self.owed)
        {
            tracing::warn!(%error, entries = self.owed.len(), "entries that have ended are still in the journal");
        }
    }

    fn commit(&mut self, batch: Vec<Command>) {
        let changes: Vec<_> = self.owed.iter().chain(batch.iter().map(|command| &command.change)).cloned().collect();
        let committed = self.store.commit(&changes);
        match &committed {
            Ok(()) => self.owed.clear(),
            Err(error) => tracing::warn!(%error, changes = changes.len(), "the journal could not be written"),
        }
        for Command { change, purpose, done } in batch {
            let (Change::Put { id, .. } | Change::Remove { id }) = change;
            match (purpose, &committed) {
                (Purpose::Write, Ok(())) => self.index.written(id),
                (Purpose::Write, Err(_)) => {
                    // It may be on the disk nevertheless, and must not be resumed: its caller hears that it was not sent.
                    self.owed.push(Change::Remove { id });
                    self.index.remove(id);
                }
                (Purpose::End, Err(_)) => self.owed.push(Change::Remove { id }),
                (Purpose::Note | Purpose::End, _) => {}
            }
            if let Some(done) = done {
                let _ = done.send(committed.clone());
            }
        }
    }
}
