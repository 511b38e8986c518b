//! Cuts of connections.

use std::fmt;

use crate::statements::contains;

/// Cuts a connection in the middle of its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whether all connections are cut, or only the one that reaches the moment.
    pub all: bool,
    /// When it happens.
    pub moment: Moment,
}

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At the next COMMIT: the server executes it, and its answer is lost.
    AfterCommit,
    /// At the next statement whose text has this part: the server executes it, and its answer is lost.
    AfterStatement(&'static str),
    /// At the next COMMIT, which does not reach the server.
    BeforeCommit,
    /// After `left` more bytes in one direction, whichever connections carry them.
    Bytes {
        /// The direction in which bytes count.
        direction: Direction,
        /// How many bytes still pass.
        left: usize,
    },
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the server to the client.
    Answers,
    /// From the client to the server.
    Requests,
}

/// A cut that has not happened yet.
pub(crate) struct ArmedCut {
    pub(crate) cut: Cut,
    /// Called when it happens.
    pub(crate) on_cut: Box<dyn FnOnce() + Send>,
}

impl ArmedCut {
    /// How many of these bytes, which have the server execute these statements, still pass; `None` if they do not reach the cut.
    pub(crate) fn passing(&mut self, direction: Direction, bytes: &[u8], statements: &[Vec<u8>]) -> Option<usize> {
        let commits = || direction == Direction::Requests && has_commit(bytes);
        match &mut self.cut.moment {
            Moment::AfterCommit => commits().then_some(bytes.len()),
            Moment::AfterStatement(part) => {
                statements.iter().any(|text| contains(text, part.as_bytes())).then_some(bytes.len())
            }
            Moment::BeforeCommit => commits().then_some(0),
            Moment::Bytes { direction: counted, .. } if *counted != direction => None,
            Moment::Bytes { left, .. } if *left >= bytes.len() => {
                *left -= bytes.len();
                None
            }
            Moment::Bytes { left, .. } => Some(*left),
        }
    }
}

impl Moment {
    /// Whether the answer of the server is lost.
    pub(crate) fn is_after(self) -> bool {
        matches!(self, Self::AfterCommit | Self::AfterStatement(_))
    }

    /// Whether these bytes are the answer that is lost.
    pub(crate) fn is_answered_by(self, bytes: &[u8]) -> bool {
        const READY: &[u8] = b"Z\0\0\0\x05";
        match self {
            Self::AfterStatement(_) => contains(bytes, READY),
            _ => has_commit(bytes),
        }
    }
}

impl fmt::Debug for ArmedCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArmedCut").field(&self.cut).finish()
    }
}

/// Whether a PostgreSQL message among these is a COMMIT, or the answer to one: both end like this.
fn has_commit(bytes: &[u8]) -> bool {
    const COMMIT: &[u8] = b"COMMIT\0";
    contains(bytes, COMMIT)
}
