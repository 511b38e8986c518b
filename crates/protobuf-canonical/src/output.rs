//! The canonical encoding while it is written.

use prost::encoding::{encode_varint, encoded_len_varint};

use super::{CanonicalError, CanonicalErrorKind as Kind, reader::MAX_VARINT_LEN};

/// The growth that is allowed even for the smallest message, in bytes.
const MIN_GROWTH: usize = 64 << 10;

/// The least size of a further segment, in bytes.
const MIN_STEP: usize = 4 << 10;

/// Bytes of each segment for tags, and for lengths that take more bytes than were reserved for them.
const HEADROOM: usize = 256;

/// Bytes in segments. A segment never grows. To grow, it would have to move, and its memory would be needed twice meanwhile.
pub(super) struct Output {
    /// The segments before the last.
    full: Vec<Vec<u8>>,
    full_len: usize,
    last: Vec<u8>,
    /// The largest length for which a further segment is begun, in bytes.
    max: usize,
    /// The size of each further segment, in bytes.
    step: usize,
}

impl Output {
    /// Creates the output for a message that arrived in this many bytes.
    pub(super) fn new(arrived: usize) -> Self {
        let max = arrived + arrived.max(MIN_GROWTH);
        // Enough for messages that grow a little, and for those that keep their size.
        let last = Vec::with_capacity(arrived + 2 * HEADROOM);
        Self { full: Vec::new(), full_len: 0, last, max, step: (arrived / 4).max(MIN_STEP) }
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.full.iter().map(Vec::as_slice).chain([self.last.as_slice()])
    }

    pub(super) fn into_vec(self) -> Vec<u8> {
        if self.full.is_empty() { self.last } else { self.segments().collect::<Vec<_>>().concat() }
    }

    pub(super) fn len(&self) -> usize {
        self.full_len + self.last.len()
    }

    /// Makes room for a value of this many bytes, its tag and its length.
    #[inline]
    pub(super) fn make_room(&mut self, value: usize) -> Result<(), CanonicalError> {
        if self.last.capacity() - self.last.len() >= value + HEADROOM {
            return Ok(());
        }
        self.begin_segment(value)
    }

    #[cold]
    fn begin_segment(&mut self, value: usize) -> Result<(), CanonicalError> {
        if self.len() + value > self.max {
            return Err(Kind::TooCostly.into());
        }
        let next = Vec::with_capacity(self.step.max(value) + HEADROOM);
        let full = std::mem::replace(&mut self.last, next);
        self.full_len += full.len();
        self.full.push(full);
        Ok(())
    }

    #[inline]
    pub(super) fn varint(&mut self, value: u64) {
        match u8::try_from(value) {
            Ok(byte @ 0..0x80) => self.last.push(byte),
            _ => encode_varint(value, &mut self.last),
        }
    }

    #[inline]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
    }

    /// Cuts the output back to this length. No new segment may have begun since the output had it.
    pub(super) fn truncate(&mut self, len: usize) {
        self.last.truncate(len - self.full_len);
    }

    /// Reserves bytes for a length that is not known yet: as many as the length `expected` takes.
    pub(super) fn begin_delimited(&mut self, expected: usize) -> Delimited {
        let (start, room) = (self.len(), encoded_len_varint(expected as u64));
        self.last.resize(self.last.len() + room, 0);
        Delimited { start, room }
    }

    /// Writes the length of all that was written since `begin_delimited`, and returns it. Usually the length fits into the reserved bytes,
    /// and nothing has to be moved.
    pub(super) fn end_delimited(&mut self, Delimited { start, room }: Delimited) -> usize {
        let length = self.len() - start - room;
        if length < 0x80 && room == 1 && start >= self.full_len {
            self.last[start - self.full_len] = length as u8;
            return length;
        }
        self.end_long(start, room, length);
        length
    }

    #[inline(never)]
    fn end_long(&mut self, start: usize, room: usize, length: usize) {
        let mut encoded = [0; MAX_VARINT_LEN];
        let mut unused = encoded.as_mut_slice();
        encode_varint(length as u64, &mut unused);
        let unused = unused.len();
        let encoded = &encoded[..MAX_VARINT_LEN - unused];

        let (mut segment, mut segment_start) = (&mut self.last, self.full_len);
        for full in self.full.iter_mut().rev() {
            if start >= segment_start {
                break;
            }
            segment_start -= full.len();
            segment = full;
        }
        let before = segment.len();
        let at = start - segment_start;
        if room == encoded.len() {
            segment[at..at + room].copy_from_slice(encoded);
        } else {
            segment.splice(at..at + room, encoded.iter().copied());
        }
        let after = segment.len();
        if segment_start < self.full_len {
            self.full_len = self.full_len + after - before;
        }
    }
}

/// The place of a length that is not known yet.
#[must_use]
pub(super) struct Delimited {
    start: usize,
    /// The bytes reserved for it.
    room: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_written_where_it_belongs_in_any_segment() {
        for (expected, content) in [(1, 1), (1, 200), (200, 1), (1, 200_000), (1 << 20, 3)] {
            let mut output = Output::new(200_000);
            output.extend(b"before");
            let outer = output.begin_delimited(expected);
            let inner = output.begin_delimited(content);
            for _ in 0..content {
                output.make_room(1).expect("room");
                output.extend(b"a");
            }
            assert_eq!(output.end_delimited(inner), content);
            output.end_delimited(outer);
            let inner = [varint(content), vec![b'a'; content]].concat();
            assert_eq!(output.into_vec(), [b"before".to_vec(), varint(inner.len()), inner].concat(), "{expected}");
        }
    }

    fn varint(value: usize) -> Vec<u8> {
        let mut encoded = Vec::new();
        encode_varint(value as u64, &mut encoded);
        encoded
    }

    #[test]
    fn does_not_grow_far_beyond_twice_what_arrived() {
        let mut output = Output::new(1 << 20);
        let written = (0..)
            .take_while(|_| {
                output.make_room(100).is_ok() && {
                    output.extend(&[0; 100]);
                    true
                }
            })
            .count();
        assert!((2 << 20..=5 << 19).contains(&(written * 100)), "{written}");
        assert!(output.segments().count() > 2);
    }
}
