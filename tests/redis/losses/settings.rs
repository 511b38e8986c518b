//! The settings that are measured.

use std::fmt;

use tonic_idempotency_redis::Durability;

/// Servers, what happens to them, and how they are set up.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) fault: Fault,
    pub(crate) persistence: Persistence,
    /// The replicas that the store waits for.
    pub(crate) wait: u32,
    /// `min-replicas-to-write`.
    pub(crate) min_replicas: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A primary of a cluster is killed, and its replica takes over.
    Failover,
    /// The same, after the replica has received nothing for a moment, as behind a slow network.
    FailoverToLate,
    /// A primary of a cluster hangs until its replica has taken over, and then goes on.
    Pause,
    /// The only server is killed, and starts again.
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    Always,
    EverySecond,
    Nothing,
}

impl Setting {
    pub(crate) fn all() -> Vec<Self> {
        use Fault::{Failover, FailoverToLate, Pause, Restart};
        use Persistence::{Always, EverySecond, Nothing};
        let setting = |fault, persistence, wait, min_replicas| Self { fault, persistence, wait, min_replicas };
        let mut all = [Nothing, EverySecond, Always].map(|persistence| setting(Restart, persistence, 0, 0)).to_vec();
        for fault in [Failover, FailoverToLate, Pause] {
            for (persistence, wait, min_replicas) in
                [(EverySecond, 0, 0), (Always, 0, 0), (EverySecond, 0, 1), (EverySecond, 1, 0), (Always, 1, 1)]
            {
                all.push(setting(fault, persistence, wait, min_replicas));
            }
        }
        all
    }

    pub(crate) fn durability(&self) -> Durability {
        Durability::replicas(self.wait)
    }

    /// Lines of the servers' configuration.
    pub(crate) fn configuration(&self) -> Vec<String> {
        let mut lines = match self.persistence {
            Persistence::Always => vec!["appendonly yes".to_owned(), "appendfsync always".to_owned()],
            Persistence::EverySecond => vec!["appendonly yes".to_owned(), "appendfsync everysec".to_owned()],
            Persistence::Nothing => vec!["appendonly no".to_owned()],
        };
        if self.min_replicas > 0 {
            // The shortest lag that Redis knows, for which a replica that is well is never late: it reports once a second.
            lines.push(format!("min-replicas-to-write {}", self.min_replicas));
            lines.push("min-replicas-max-lag 2".to_owned());
        }
        lines
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (servers, fault) = match self.fault {
            Fault::Failover => ("cluster", "`kill -9` of a primary"),
            Fault::FailoverToLate => ("cluster", "`kill -9` of a primary whose replica is 0.3 s late"),
            Fault::Pause => ("cluster", "a primary hangs until it is replaced"),
            Fault::Restart => ("one server", "`kill -9`, and a restart"),
        };
        let persistence = match self.persistence {
            Persistence::Always => "`appendfsync always`",
            Persistence::EverySecond => "`appendfsync everysec`",
            Persistence::Nothing => "`appendonly no`",
        };
        write!(f, "{servers} | {fault} | {persistence}")?;
        if self.wait > 0 {
            write!(f, ", `Durability::replicas({})`", self.wait)?;
        }
        if self.min_replicas > 0 {
            write!(f, ", `min-replicas-to-write {}`", self.min_replicas)?;
        }
        Ok(())
    }
}
