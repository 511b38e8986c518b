//! The thread that writes: changes that wait at one moment are one commit.

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

/// The way to the thread. Dropping it waits until all changes are written.
#[derive(Debug)]
pub(crate) struct Writer {
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<JoinHandle<()>>,
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
    pub(crate) fn start(store: Arc<dyn JournalStore>, index: Arc<Index>) -> std::io::Result<Self> {
        let (commands, received) = mpsc::channel();
        let thread = thread::Builder::new().name("idempotency-journal".to_owned());
        let thread = thread.spawn(move || write(&*store, &received, &index))?;
        Ok(Self { commands: Some(commands), thread: Some(thread) })
    }

    /// Hands a change to the thread. The receiver tells when it is durable.
    pub(crate) fn hand(&self, change: Change, purpose: Purpose) -> oneshot::Receiver<Result<(), JournalError>> {
        let (done, receiver) = oneshot::channel();
        if let Some(commands) = &self.commands {
            // The thread ends after the last sender; without it, the receiver fails.
            let _ = commands.send(Command { change, purpose, done: Some(done) });
        }
        receiver
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(store: &dyn JournalStore, commands: &mpsc::Receiver<Command>, index: &Index) {
    // The removals that the store has not taken.
    let mut owed: Vec<Change> = Vec::new();
    loop {
        let first = match commands.recv_timeout(if owed.is_empty() { Duration::MAX } else { AGAIN }) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let mut batch = Vec::from_iter(first);
        batch.extend(commands.try_iter().take(MOST - 1));
        let changes: Vec<_> = owed.iter().chain(batch.iter().map(|command| &command.change)).cloned().collect();
        let committed = store.commit(&changes);
        match &committed {
            Ok(()) => owed.clear(),
            Err(error) => tracing::warn!(%error, changes = changes.len(), "the journal could not be written"),
        }
        for Command { change, purpose, done } in batch {
            let (Change::Put { id, .. } | Change::Remove { id }) = change;
            match (purpose, &committed) {
                (Purpose::Write, Ok(())) => index.written(id),
                (Purpose::Write, Err(_)) => {
                    // It may be on the disk nevertheless, and must not be resumed: its caller hears that it was not sent.
                    owed.push(Change::Remove { id });
                    index.remove(id);
                }
                (Purpose::End, Err(_)) => owed.push(Change::Remove { id }),
                (Purpose::Note | Purpose::End, _) => {}
            }
            if let Some(done) = done {
                let _ = done.send(committed.clone());
            }
        }
    }
    if !owed.is_empty()
        && let Err(error) = store.commit(&owed)
    {
        tracing::warn!(%error, entries = owed.len(), "entries that have ended are still in the journal");
    }
}
