//! The errors of starting and crashing servers.

use std::{error::Error, fmt};

use crate::Source;

/// The reason why one source gave no server.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// No source gave a server. The text lists the ways to get one, and why each source that was tried failed.
pub struct StartError {
    attempts: Vec<(Source, Cause)>,
}

impl StartError {
    pub(crate) fn new(attempts: Vec<(Source, Cause)>) -> Self {
        Self { attempts }
    }

    /// The reason why the source selected by `of` gave no server; `not tried` if it was not among the sources.
    fn outcome(&self, of: fn(&Source) -> bool) -> String {
        let causes: Vec<String> =
            self.attempts.iter().filter(|(source, _)| of(source)).map(|(_, cause)| chain(cause.as_ref())).collect();
        if causes.is_empty() {
            return "not tried".to_owned();
        }
        // The last lines of a server's log are several lines.
        causes.join("; ").trim_end().replace('\n', "\n      ")
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.outcome(|source| matches!(source, Source::Url(_)));
        let installed = self.outcome(|source| matches!(source, Source::Installed | Source::Binaries(_)));
        let container = self.outcome(|source| matches!(source, Source::Container));
        writeln!(f, "no PostgreSQL server is available; use one of these ways to get one:")?;
        writeln!(f, "  - set DATABASE_URL to a running server: {url}")?;
        writeln!(f, "  - install PostgreSQL's server binaries (initdb and postgres): {installed}")?;
        write!(f, "  - run a container engine (Docker or Podman): {container}")
    }
}

/// The same text, because `main` and `expect` print errors with `Debug`.
impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for StartError {}

/// A server could not be killed, restarted or upgraded.
pub struct CrashError(pub(crate) Cause);

impl fmt::Display for CrashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self.0.as_ref()))
    }
}

/// The same text, because `main` and `expect` print errors with `Debug`.
impl fmt::Debug for CrashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for CrashError {}

/// The error with its causes: `tokio_postgres` itself only says `error connecting to server`.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        next = error.source();
    }
    text
}
