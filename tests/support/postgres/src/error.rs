//! Why no server could be had, or not be made to crash.

use std::{error::Error, fmt};

use crate::Source;

/// Why one source gave no server.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// None of the sources gave a server. Its text names every way out, and why each that was tried did not work.
pub struct StartError {
    attempts: Vec<(Source, Cause)>,
}

impl StartError {
    pub(crate) fn new(attempts: Vec<(Source, Cause)>) -> Self {
        Self { attempts }
    }

    /// Why the source that `of` picks gave no server; `not tried` where it was not among them.
    fn outcome(&self, of: fn(&Source) -> bool) -> String {
        let causes: Vec<String> =
            self.attempts.iter().filter(|(source, _)| of(source)).map(|(_, cause)| chain(cause.as_ref())).collect();
        if causes.is_empty() {
            return "not tried".to_owned();
        }
        // What a server logged last runs over several lines.
        causes.join("; ").trim_end().replace('\n', "\n      ")
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.outcome(|source| matches!(source, Source::Url(_)));
        let installed = self.outcome(|source| matches!(source, Source::Installed));
        let container = self.outcome(|source| matches!(source, Source::Container));
        writeln!(f, "there is no PostgreSQL server to use; any one of these gives one:")?;
        writeln!(f, "  - set DATABASE_URL to a server that runs: {url}")?;
        writeln!(f, "  - install PostgreSQL's server binaries (initdb and postgres): {installed}")?;
        write!(f, "  - run a container engine (Docker or Podman): {container}")
    }
}

/// The same text, because `main` and `expect` print errors this way.
impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for StartError {}

/// A server could not be killed, or not be started again.
pub struct CrashError(pub(crate) Cause);

impl fmt::Display for CrashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self.0.as_ref()))
    }
}

/// The same text, because `main` and `expect` print errors this way.
impl fmt::Debug for CrashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for CrashError {}

/// An error with what caused it: `tokio_postgres` says no more than `error connecting to server` by itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_three_ways_out_and_why_each_failed() {
        let error = StartError::new(vec![
            (Source::Url("postgres://u:secret@h/d".to_owned()), "refused".into()),
            (Source::Installed, "no initdb".into()),
        ]);
        let text = error.to_string();
        for part in [
            "set DATABASE_URL to a server that runs: refused\n",
            "install PostgreSQL's server binaries (initdb and postgres): no initdb\n",
            "run a container engine (Docker or Podman): not tried",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains("secret"), "{text}");
    }
}
