//! A promise, and how it is checked.

use futures_util::future::BoxFuture;

use crate::check::{finding::Checked, options::Level, server::Server};

/// A promise of a server with idempotency keys to its clients.
pub(in crate::check) struct Promise {
    pub(in crate::check) code: &'static str,
    pub(in crate::check) sentence: &'static str,
    pub(in crate::check) reason: &'static str,
    pub(in crate::check) level: Level,
    pub(in crate::check) needs: &'static [Need],
    /// How many calls its check makes.
    pub(in crate::check) calls: u32,
    /// How many of their operations have an effect.
    pub(in crate::check) creates: u32,
    pub(in crate::check) check: Check,
}

pub(in crate::check) type Check = for<'a> fn(&'a Server) -> BoxFuture<'a, Checked>;

/// Something that a check cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) enum Need {
    Also,
    Count,
    Other,
    Restart,
    SecondHeader,
    Slow,
}

impl Need {
    pub(in crate::check) fn flag(self) -> &'static str {
        match self {
            Self::Also => "--also",
            Self::Count => "--count",
            Self::Other => "--other",
            Self::Restart => "--restart",
            Self::SecondHeader => "--second-header",
            Self::Slow => "--slow",
        }
    }

    pub(in crate::check) fn is_met(self, server: &Server) -> bool {
        match self {
            Self::Also => server.also.is_some(),
            // Without a counter, a check may still find a failure.
            Self::Count => true,
            Self::Other => server.other.is_some(),
            Self::Restart => server.restarts(),
            Self::SecondHeader => !server.second_headers.is_empty(),
            Self::Slow => server.slow.is_some(),
        }
    }
}

/// A group of promises, and what it is about.
pub(in crate::check) struct Group {
    pub(in crate::check) title: &'static str,
    pub(in crate::check) promises: &'static [Promise],
}
