//! The entries of maps, sorted, each key once.

use std::ops::Range;

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    check::canonical_entry,
    reader::{Reader, WireType},
    rewrite::read_scalar,
    run::Runs,
    schema::{MapPlan, Schema},
    sort_key::{SortKey, first_bytes},
};

/// The number of entries with different keys that any message may have.
const MIN_ENTRIES: usize = 128 << 10;

/// The bytes of a message for each further entry.
const BYTES_PER_ENTRY: usize = 8;

/// The bytes of runs from which on entries are counted before memory is reserved for them.
const LARGE: usize = 4 << 10;

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

    fn key<'a>(self, runs: &Runs<'a>) -> SortKey<'a> {
        let text = match self.text {
            MISSING => None,
            position => runs.from(position).bytes().ok(),
        };
        SortKey { number: self.number, text: text.map_or(&[], |text| text.content) }
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
        self.reserve(runs, of.clone())?;
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

    /// Reserves memory for large maps at once: growing would need half as much again.
    fn reserve(&mut self, runs: &Runs<'_>, of: Range<usize>) -> Result<(), CanonicalError> {
        let bytes: usize = of.clone().map(|index| runs.reader(runs.get(index)).rest().len()).sum();
        if bytes < LARGE {
            return Ok(());
        }
        let mut count: usize = 0;
        for index in of {
            let mut reader = runs.reader(runs.get(index));
            while !reader.is_empty() {
                reader.tag()?;
                reader.bytes()?;
                count += 1;
            }
        }
        self.entries.reserve_exact(count.min(self.max.saturating_sub(self.entries.len())));
        Ok(())
    }

    fn push(&mut self, runs: &Runs<'_>, first: usize, entry: Entry) -> Result<(), CanonicalError> {
        match self.entries[first..].last_mut() {
            Some(last) if last.key(runs) == entry.key(runs) => *last = entry,
            _ => {
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
        let by_key_and_arrival = |entry: &Entry| (entry.key(runs), entry.start & !CANONICAL);
        self.entries[first..].sort_unstable_by(|a, b| {
            let by_number = a.number.cmp(&b.number);
            by_number.then_with(|| by_key_and_arrival(a).cmp(&by_key_and_arrival(b)))
        });
        let mut kept = first;
        for index in first..self.entries.len() {
            let entry = self.entries[index];
            let next = self.entries.get(index + 1);
            if next.is_none_or(|next| next.number != entry.number || next.key(runs) != entry.key(runs)) {
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
