//! The frame around each record in the file, by which records are found in a damaged file.

use memchr::memmem;

/// The magic number of a frame: three bytes that do not occur in text.
const MAGIC: [u8; 3] = [0xc9, 0xfd, 0xe7];

/// The version of a frame, which is after the magic number.
const VERSION: u8 = 1;
const BEGIN: [u8; 4] = [MAGIC[0], MAGIC[1], MAGIC[2], VERSION];

/// The length of a frame's head: the magic number, the checksum of all that follows it, the numbers of the commit and the
/// record, and the record's length.
const HEAD: usize = 4 + 4 + 8 + 8 + 4;

/// A record in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// The number of the commit that wrote it.
    pub(super) commit: u64,
    pub(super) id: u64,
    pub(super) record: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(HEAD + self.record.len());
        frame.extend_from_slice(&BEGIN);
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&self.commit.to_le_bytes());
        frame.extend_from_slice(&self.id.to_le_bytes());
        frame.extend_from_slice(&u32::try_from(self.record.len()).unwrap_or(u32::MAX).to_le_bytes());
        frame.extend_from_slice(self.record);
        let checksum = crc32fast::hash(&frame[8..]);
        frame[4..8].copy_from_slice(&checksum.to_le_bytes());
        frame
    }

    /// Reads the frame with which these bytes begin; `None` if it is damaged, or of another version.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        Self::after(bytes.strip_prefix(&BEGIN)?)
    }

    /// Reads the part of a frame after its version.
    fn after(bytes: &'a [u8]) -> Option<Self> {
        let (checksum, bytes) = bytes.split_first_chunk()?;
        let (commit, rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let record = rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        let is_whole = crc32fast::hash(&bytes[..HEAD - 8 + record.len()]) == u32::from_le_bytes(*checksum);
        is_whole.then(|| Self { commit: u64::from_le_bytes(*commit), id: u64::from_le_bytes(*id), record })
    }

    /// Finds all intact frames in a file, wherever they are, and their places.
    pub(super) fn all(file: &'a [u8]) -> impl Iterator<Item = (usize, Self)> {
        memmem::find_iter(file, &BEGIN).filter_map(|at| Some((at, Self::read(&file[at..])?)))
    }
}

/// Returns the version of the frame with which these bytes begin, if it is newer than this program's.
pub(super) fn newer(bytes: &[u8]) -> Option<u8> {
    bytes.strip_prefix(&MAGIC)?.first().copied().filter(|version| *version > VERSION)
}

/// Returns the newer version of a frame in a damaged file. If only its version is damaged, a frame has the checksum of this one.
pub(super) fn newer_among(file: &[u8]) -> Option<u8> {
    let mut places = memmem::find_iter(file, &MAGIC).map(|at| &file[at..]);
    places.find_map(|bytes| newer(bytes).filter(|_| Frame::after(&bytes[BEGIN.len()..]).is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_if_it_is_whole_and_found_anywhere() {
        let frame = Frame { commit: 3, id: 7, record: b"an operation" };
        let encoded = frame.encode();
        assert_eq!(Frame::read(&encoded), Some(frame));
        let file = [&b"\xc9\xfd"[..], &encoded, b"\xc9\xfd\xe7\x01", &encoded, &encoded[..20]].concat();
        assert_eq!(Frame::all(&file).collect::<Vec<_>>(), [(2, frame), (6 + encoded.len(), frame)]);
        for bit in 0..encoded.len() * 8 {
            let mut damaged = encoded.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!((Frame::read(&damaged), newer_among(&damaged)), (None, None), "bit {bit}");
        }
    }
}
