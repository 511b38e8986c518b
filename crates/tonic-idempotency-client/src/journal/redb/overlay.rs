//! Changes of a disk that stay in memory.

use std::{collections::BTreeMap, io, ops::Range};

use redb::StorageBackend;

/// The size of a part that is kept in memory, in bytes.
const PART: usize = 4096;

/// The changes of a disk that is only read. Before redb reads a file it repairs it, which takes space, and changes the file.
#[derive(Debug)]
pub(super) struct Overlay {
    length: u64,
    /// The length up to which the disk is read. Beyond are zeros.
    on_disk: u64,
    /// The parts that were written, by number.
    parts: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn of(disk: &dyn StorageBackend) -> io::Result<Self> {
        let length = disk.len()?;
        Ok(Self { length, on_disk: length, parts: BTreeMap::new() })
    }

    pub(super) fn len(&self) -> u64 {
        self.length
    }

    pub(super) fn set_len(&mut self, length: u64) {
        self.on_disk = self.on_disk.min(length);
        self.length = length;
        let (last, within) = place(length);
        self.parts.retain(|number, _| *number <= last);
        if let Some(part) = self.parts.get_mut(&last) {
            part[within..].fill(0);
        }
    }

    pub(super) fn read(&self, disk: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.length < offset.saturating_add(out.len() as u64) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_disk(disk, offset, out)?;
        for (number, within, range) in parts(offset, out.len()) {
            if let Some(part) = self.parts.get(&number) {
                let length = range.len();
                out[range].copy_from_slice(&part[within..within + length]);
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, disk: &dyn StorageBackend, offset: u64, data: &[u8]) -> io::Result<()> {
        for (number, within, range) in parts(offset, data.len()) {
            let mut part = match self.parts.remove(&number) {
                Some(part) => part,
                None => {
                    let mut part = vec![0; PART];
                    self.read_disk(disk, number * PART as u64, &mut part)?;
                    part
                }
            };
            part[within..within + range.len()].copy_from_slice(&data[range]);
            self.parts.insert(number, part);
        }
        Ok(())
    }

    fn read_disk(&self, disk: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(self.on_disk.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (read, beyond) = out.split_at_mut(there.min(out.len()));
        beyond.fill(0);
        if read.is_empty() { Ok(()) } else { disk.read(offset, read) }
    }
}

/// Returns the parts of a range: the number of each, the place in the part, and the place in the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < length).then(|| {
            let (number, within) = place(offset + done as u64);
            let range = done..length.min(done + PART - within);
            done = range.end;
            (number, within, range)
        })
    })
}

/// Returns the number of the part in which this offset is, and the place in the part.
fn place(offset: u64) -> (u64, usize) {
    (offset / PART as u64, (offset % PART as u64) as usize)
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn reads_as_a_disk_that_is_written_and_leaves_the_disk_alone() {
        let (disk, written) = (InMemoryBackend::new(), InMemoryBackend::new());
        for disk in [&disk, &written] {
            disk.set_len(20_000).expect("a disk");
            disk.write(0, &[7; 20_000]).expect("a disk");
        }
        let mut overlay = Overlay::of(&disk).expect("a disk");
        for _ in 0..1000 {
            let at = fastrand::u64(..overlay.len());
            let data = vec![fastrand::u8(..); fastrand::usize(..=usize::try_from(overlay.len() - at).expect("short"))];
            overlay.write(&disk, at, &data).expect("a disk");
            written.write(at, &data).expect("a disk");
            if fastrand::u8(..) < 32 {
                let length = fastrand::u64(1..40_000);
                overlay.set_len(length);
                written.set_len(length).expect("a disk");
            }
            let [mut one, mut other] = [(); 2].map(|()| vec![1; usize::try_from(overlay.len()).expect("short")]);
            overlay.read(&disk, 0, &mut one).expect("a disk");
            written.read(0, &mut other).expect("a disk");
            assert!(one == other, "after {} bytes at {at}", data.len());
        }
        let mut left = vec![0; 20_000];
        disk.read(0, &mut left).expect("a disk");
        assert!(left == [7; 20_000] && overlay.read(&disk, overlay.len(), &mut [0]).is_err());
    }
}
