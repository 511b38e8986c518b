//! The entries of maps, sorted, each key once.

use std::{cmp::Ordering, ops::Range};

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    check::canonical_entry,
    raw::read_scalar,
    reader::{Reader, WireType},
    run::Runs,
    schema::{MapPlan, Schema},
    sort_key::first_bytes,
};

/// The number of entries with different keys that any message may have.
const MIN_ENTRIES: usize = 128 << 10;

/// The bytes of a message for each further entry.
const BYTES_PER_ENTRY: usize = 8;

/// Added to a position in `Entry::start`: the entry can be copied unchanged. Messages are smaller than 2 GiB.
const CANONICAL: u32 = 1 << 31;

/// The position of a text that is missing, and thus empty.
const MISSING: u32 = u32::MAX;

/// A map entry as it arrived.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Sorts like the key, except for texts whose first bytes are equal.
    number: u64,
    /// The position of the key if it is a text.
    text: u32,
    /// The position of the entry, after its tag; and [`CANONICAL`].
    start: u32,
}

impl Entry {
    pub(super) fn is_canonical(self) -> bool {
        self.start & CANONICAL != 0
    }

    pub(super) fn content<'a>(self, runs: &Runs<'a>) -> Result<&'a [u8], CanonicalError> {
        Ok(runs.from(self.start & !CANONICAL).bytes()?.content)
    }

    /// Returns the key if it is a text, and otherwise an empty text.
    fn text<'a>(self, runs: &Runs<'a>) -> &'a [u8] {
        match self.text {
            // Not `&[]`: to compare memory that is not mapped takes the processor a hundred times as long, even if there
            // is nothing to compare.
            MISSING => runs.empty(),
            position => runs.from(position).bytes().map_or(runs.empty(), |text| text.content),
        }
    }

    fn cmp_keys(self, other: Self, runs: &Runs<'_>) -> Ordering {
        self.number.cmp(&other.number).then_with(|| match self.text == other.text {
            true => Ordering::Equal,
            false => self.text(runs).cmp(other.text(runs)),
        })
    }
}

/// The entries of the maps being written, those of the innermost one last.
pub(super) struct Entries {
    entries: Vec<Entry>,
    max: usize,
}

impl Entries {
    pub(super) fn new(wire: &[u8]) -> Self {
        Self { entries: Vec::new(), max: MIN_ENTRIES.max(wire.len() / BYTES_PER_ENTRY) }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, index: usize) -> Entry {
        self.entries[index]
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }

    /// Appends the entries in these runs of a map, sorted, of equal keys the last.
    pub(super) fn collect<'a>(
        &mut self,
        schema: &Schema,
        map: MapPlan,
        runs: &Runs<'a>,
        of: Range<usize>,
        depth: u32,
    ) -> Result<(), CanonicalError> {
        let first = self.entries.len();
        for index in of {
            let mut reader = runs.reader(runs.get(index));
            while !reader.is_empty() {
                reader.tag()?;
                let start = runs.position(reader.rest());
                let entry = read(schema, map, runs, start, reader.bytes()?.content, depth)?;
                self.push(runs, first, entry)?;
            }
        }
        self.sort(runs, first);
        Ok(())
    }

    /// Makes room for more entries: for many at once, as growing needs the memory before and after at the same time.
    #[cold]
    fn grow(&mut self) {
        let len = self.entries.len();
        let left = self.max.saturating_sub(len);
        self.entries.reserve_exact(if len < self.max / 8 { len.max(8).min(left) } else { left });
    }

    fn push(&mut self, runs: &Runs<'_>, first: usize, entry: Entry) -> Result<(), CanonicalError> {
        match self.entries[first..].last_mut() {
            Some(last) if last.cmp_keys(entry, runs).is_eq() => *last = entry,
            _ => {
                if self.entries.len() == self.entries.capacity() {
                    self.grow();
                }
                if self.entries.len() >= self.max {
                    self.sort(runs, first);
                    // Sorting again after a few more would take too long.
                    if self.entries.len() > self.max - self.max / 4 {
                        return Err(Kind::TooCostly.into());
                    }
                }
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Sorts the entries from `first` on, and removes all but the last to arrive of equal keys.
    fn sort(&mut self, runs: &Runs<'_>, first: usize) {
        self.entries[first..].sort_unstable_by(|a, b| {
            let by_arrival = || (a.start & !CANONICAL).cmp(&(b.start & !CANONICAL));
            a.cmp_keys(*b, runs).then_with(by_arrival)
        });
        let mut kept = first;
        for index in first..self.entries.len() {
            let entry = self.entries[index];
            let next = self.entries.get(index + 1);
            if next.is_none_or(|next| next.cmp_keys(entry, runs).is_ne()) {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.entries.truncate(kept);
    }
}

fn read<'a>(
    schema: &Schema,
    map: MapPlan,
    runs: &Runs<'a>,
    start: u32,
    content: &'a [u8],
    depth: u32,
) -> Result<Entry, CanonicalError> {
    let is_text = map.key.wire() == WireType::Bytes;
    if content.is_empty() {
        return Ok(Entry { number: if is_text { 0 } else { map.key.sort_key(0) }, text: MISSING, start });
    }
    if let Some(key) = canonical_entry(schema, map, content) {
        // The key comes first, after its tag, which is one byte.
        let text = if is_text { runs.position(content) + 1 } else { MISSING };
        return Ok(Entry { number: key.number, text, start: start | CANONICAL });
    }
    let (mut number, mut text) = (if is_text { 0 } else { map.key.sort_key(0) }, MISSING);
    let mut reader = Reader::new(content);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        if tag.encoded() != map.key_tag() {
            reader.skip(tag, depth)?;
        } else if is_text {
            text = runs.position(reader.rest());
            number = first_bytes(reader.bytes()?.content);
        } else {
            number = map.key.sort_key(read_scalar(&mut reader, map.key)?.number());
        }
    }
    Ok(Entry { number, text, start })
}
