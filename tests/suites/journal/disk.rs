//! A disk that fails or dies, and that loses, reorders and halves what was written since the last sync.

use std::{io, sync::MutexGuard};

use rand::{RngExt as _, rngs::StdRng, seq::SliceRandom as _};
use redb::{StorageBackend, backends::FileBackend};

use super::prelude::*;

/// The size of a sector, in bytes.
const SECTOR: usize = 512;

/// A disk with one file. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The content that survives a crash.
    synced: Vec<u8>,
    /// The writes since the last sync.
    unsynced: Vec<DiskWrite>,
    /// The number of writes and syncs until one fails, if one is to, and whether all later ones fail.
    left: Option<u32>,
    dies: bool,
    has_failed: bool,
    /// Whether its syncs do nothing.
    forgets: bool,
}

#[derive(Debug)]
enum DiskWrite {
    Data(u64, Vec<u8>),
    Length(u64),
}

impl Disk {
    /// A disk with a file of this content.
    pub(crate) fn new(content: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { synced: content, ..State::default() })))
    }

    /// Lets its syncs do nothing.
    pub(crate) fn forgets(self) -> Self {
        self.state().forgets = true;
        self
    }

    /// Lets the write or sync after this number of them fail, and all later ones if it dies of it.
    pub(crate) fn fails_after(&self, writes: u32, dies: bool) {
        let mut state = self.state();
        (state.left, state.dies) = (Some(writes), dies);
    }

    /// The content that survives a crash.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.state().synced.clone()
    }

    /// Whether a write or sync has failed since the last crash.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().is_dead()
    }

    /// The file, of which this disk knows the writes.
    pub(crate) fn backend(&self, file: FileBackend) -> Box<dyn StorageBackend> {
        Box::new(DiskFile { disk: self.clone(), file })
    }

    /// Ends the machine, and returns the content of the file that is found afterwards, on a disk that lives.
    pub(crate) fn crash(&self, random: &mut StdRng) -> Vec<u8> {
        let mut state = self.state();
        let mut writes = std::mem::take(&mut state.unsynced);
        // If only a process dies, the system makes all writes.
        if random.random_bool(0.9) {
            let survive = [0.1, 0.5, 0.9, 1.0][random.random_range(0..4)];
            let torn = [0.0, 0.3][random.random_range(0..2)];
            writes.retain(|_| random.random_bool(survive));
            if random.random_bool(0.7) {
                writes.shuffle(random);
            }
            for write in &mut writes {
                if random.random_bool(torn) {
                    write.tear(random);
                }
            }
        }
        for write in &writes {
            write.apply(&mut state.synced);
        }
        (state.left, state.has_failed) = (None, false);
        state.synced.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }
}

impl State {
    fn is_dead(&self) -> bool {
        self.dies && self.has_failed
    }

    /// Counts a write or a sync.
    fn count(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => {
                self.has_failed = true;
                self.left = self.left.filter(|_| self.dies);
                return Err(io::Error::other("the disk has failed"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

impl DiskWrite {
    /// Leaves the first or the last part of it, up to a sector or any byte.
    fn tear(&mut self, random: &mut StdRng) {
        let Self::Data(offset, data) = self else { return };
        let mut cut = random.random_range(0..=data.len());
        if random.random_bool(0.5) {
            cut -= cut % SECTOR;
        }
        if random.random_bool(0.5) {
            data.truncate(cut);
        } else {
            data.drain(..cut);
            *offset += cut as u64;
        }
    }

    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Data(offset, data) => {
                let offset = *offset as usize;
                content.resize(content.len().max(offset + data.len()), 0);
                content[offset..offset + data.len()].copy_from_slice(data);
            }
            Self::Length(length) => content.resize(*length as usize, 0),
        }
    }
}

/// A file on a disk. A process sees its writes at once.
#[derive(Debug)]
struct DiskFile {
    disk: Disk,
    file: FileBackend,
}

impl StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.count()?;
        state.unsynced.push(DiskWrite::Length(length));
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let state = &mut *self.disk.state();
        state.count()?;
        if !state.forgets {
            state.unsynced.drain(..).for_each(|write| write.apply(&mut state.synced));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let was_dead = state.is_dead();
        let counted = state.count();
        // One that fails is made in part.
        let made = if counted.is_ok() { data } else { &data[..data.len() / 2] };
        if !was_dead {
            state.unsynced.push(DiskWrite::Data(offset, made.to_vec()));
            self.file.write(offset, made)?;
        }
        counted
    }
}
