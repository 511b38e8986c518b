//! The promises, a file for each group.

mod effects;
mod faults;
mod keys;
mod message;
mod mixed;
mod ours;
mod replays;

use futures_util::future::BoxFuture;

use super::{finding::Checked, options::Level, server::Server};

/// What a server with idempotency keys owes its clients.
pub(super) struct Promise {
    pub(super) code: &'static str,
    pub(super) sentence: &'static str,
    pub(super) reason: &'static str,
    pub(super) level: Level,
    pub(super) needs: &'static [Need],
    /// How many calls its check makes.
    pub(super) calls: u32,
    /// How many of their operations have an effect.
    pub(super) creates: u32,
    pub(super) check: for<'a> fn(&'a Server) -> BoxFuture<'a, Checked>,
}

/// What a check cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Also,
    Count,
    Other,
    Restart,
    SecondHeader,
    Slow,
}

impl Need {
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Also => "--also",
            Self::Count => "--count",
            Self::Other => "--other",
            Self::Restart => "--restart",
            Self::SecondHeader => "--second-header",
            Self::Slow => "--slow",
        }
    }

    pub(super) fn is_met(self, server: &Server) -> bool {
        match self {
            Self::Also => server.also.is_some(),
            Self::Count => server.counts(),
            Self::Other => server.other.is_some(),
            Self::Restart => server.restarts(),
            Self::SecondHeader => !server.second_headers.is_empty(),
            Self::Slow => server.slow.is_some(),
        }
    }
}

/// A group of promises, and what it is about.
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) promises: &'static [Promise],
}

pub(super) const GROUPS: &[Group] =
    &[effects::GROUP, mixed::GROUP, message::GROUP, keys::GROUP, replays::GROUP, faults::GROUP, ours::GROUP];

pub(super) fn all() -> impl Iterator<Item = &'static Promise> {
    GROUPS.iter().flat_map(|group| group.promises)
}
