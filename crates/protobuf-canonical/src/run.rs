//! The fields of a message, as runs of the bytes in which they arrived.

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    reader::Reader,
    schema::{MessagePlan, Shape, Value},
};

/// The number of runs that any message may have.
const MIN_RUNS: usize = 16 << 10;

/// The bytes of a message for each further run.
const BYTES_PER_RUN: usize = 8;

/// The rank of unknown fields, which are written last.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Consecutive occurrences of one field, or consecutive unknown fields. Positions are relative to the whole message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) rank: u32,
    start: u32,
    end: u32,
}

/// The runs of the messages being written, those of the innermost one last.
pub(super) struct Runs<'a> {
    wire: &'a [u8],
    runs: Vec<Run>,
    max_runs: usize,
}

impl<'a> Runs<'a> {
    /// The message must be smaller than 4 GiB.
    pub(super) fn new(wire: &'a [u8]) -> Self {
        Self {
            wire,
            // Enough for a small message.
            runs: Vec::with_capacity(32),
            max_runs: MIN_RUNS.max(wire.len() / BYTES_PER_RUN),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn get(&self, index: usize) -> Run {
        self.runs[index]
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.runs.truncate(len);
    }

    /// Sorts the runs from `first` on into canonical order; runs of one rank stay in order of arrival.
    pub(super) fn sort(&mut self, first: usize) {
        self.runs[first..].sort_unstable();
    }

    /// Returns the bytes of a run.
    pub(super) fn reader(&self, run: Run) -> Reader<'a> {
        Reader::new(&self.wire[run.start as usize..run.end as usize])
    }

    /// Returns the bytes from `position` on.
    pub(super) fn from(&self, position: u32) -> Reader<'a> {
        Reader::new(&self.wire[position as usize..])
    }

    /// Returns the position of `rest`, a part of the message.
    pub(super) fn position(&self, rest: &[u8]) -> u32 {
        (rest.as_ptr().addr() - self.wire.as_ptr().addr()) as u32
    }

    /// Appends the runs of one piece of a message.
    pub(super) fn collect(&mut self, plan: &MessagePlan, piece: &'a [u8], depth: u32) -> Result<(), CanonicalError> {
        let mut reader = Reader::new(piece);
        let (mut open, mut repeated) = (None, None);
        while !reader.is_empty() {
            let start = self.position(reader.rest());
            let tag = reader.tag()?;
            reader.skip(tag, depth)?;
            let end = self.position(reader.rest());
            if let (Some(encoded), Some(run)) = (repeated, self.runs.last_mut())
                && encoded == tag.encoded()
            {
                run.end = end;
                continue;
            }
            let field = plan.known(tag);
            let number = field.map_or(0, |field| field.number);
            let replaces = field.is_some_and(|field| replaces(field.shape));
            match self.runs.last_mut() {
                Some(run) if open == Some(number) => {
                    run.end = end;
                    if replaces {
                        run.start = start;
                    }
                }
                _ => self.push(Run { rank: field.map_or(UNKNOWN, |field| field.rank), start, end })?,
            }
            // The same tag once more needs no search for its field.
            (open, repeated) = (Some(number), (!replaces).then_some(tag.encoded()));
        }
        Ok(())
    }

    /// Returns an empty part of the message.
    pub(super) fn empty(&self) -> &'a [u8] {
        &self.wire[..0]
    }

    fn push(&mut self, run: Run) -> Result<(), CanonicalError> {
        if self.runs.len() == self.runs.capacity() {
            let left = self.max_runs.saturating_sub(self.runs.len());
            if left == 0 {
                return Err(Kind::TooCostly.into());
            }
            // Many at once: growing needs the memory before and after at the same time.
            let more = if self.runs.len() < MIN_RUNS / 2 { self.runs.len() } else { left };
            self.runs.reserve_exact(more);
        }
        self.runs.push(run);
        Ok(())
    }
}

/// Returns whether an occurrence of a field replaces the one before it.
fn replaces(shape: Shape) -> bool {
    matches!(shape, Shape::Singular(Value::Scalar(_), _))
}
