//! The table of a run's numbers.

use std::fmt;

use crate::{args::LeasePolicy, auditor::Losses, mode::Mode, plan::Plan, topology::Topology, trial::Trial};

/// Explains the numbers in the tables.
pub(crate) const LEGEND: &str = "\
Every operation is tried once more on a new server, after all faults have ended and every lease is over: that is its
last retry. A fault is counted after it has happened. The rows that must be 0 count operations. The operations of hogs, floods
and crowds are not counted as clients' operations, but judged like them.

With `--on-store-unavailable proceed`, a call in reserved mode runs unprotected if the store could not be asked, and may make
a duplicate. The store could be asked if a witness, which asks the database all the time over the way of the same server, got
an answer, and the database was not being killed, nor its connections held for as long as the store's timeout.

With `--replication asynchronous`, a failover may lose what the primary has acknowledged and no standby has got; with
`--topology redis-cluster`, what a primary of Redis has. The rows 'after failovers that lost records' count operations, and break no
promise.

In reserved mode an operation may be executed again: with `rerun`, if a fault may have kept its outcome from being
recorded; with `reconcile`, only if a fault may have held up its handler for a lease, so that the handler went on after
the reconciler had looked.";

/// One run as a Markdown table.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) trial: &'a Trial,
}

impl Table<'_> {
    fn title(&self) -> String {
        let mode = match self.trial.mode {
            Mode::Transactional => "Transactional mode".to_owned(),
            Mode::Reserved => format!(
                "Reserved mode, `{}` after a lease without an outcome, `{}` without a store",
                self.plan.on_lease_ended, self.plan.on_store_unavailable
            ),
        };
        let topology = match self.plan.topology {
            Topology::Patroni => format!(", Patroni with {}, {} replication", self.plan.front, self.plan.replication),
            Topology::Pgbouncer => ", behind PgBouncer".to_owned(),
            Topology::RedisCluster => {
                let waits = match self.plan.replicas {
                    0 => String::new(),
                    replicas => format!(", `Durability::replicas({replicas})`"),
                };
                format!(", records on a Redis Cluster with {}{waits}", self.plan.persistence)
            }
            Topology::Partitioned | Topology::Single => String::new(),
        };
        let serializable = if self.plan.serializable { ", serializable" } else { "" };
        let batches = match self.plan.max_batch {
            Some(1) => ", no shared statements".to_owned(),
            Some(calls) => format!(", at most {calls} calls a statement"),
            None => String::new(),
        };
        let partitions = match self.plan.partitions {
            Some(partitions) if self.plan.moving => format!(", moved to {partitions} partitions"),
            Some(partitions) => format!(", {partitions} partitions"),
            None => String::new(),
        };
        format!("{mode}{topology}{serializable}{batches}{partitions}")
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: &dyn fmt::Display| rows.push((name.to_owned(), value.to_string()));
        let Trial { tally, took, verdict, .. } = self.trial;
        let seconds = std::time::Duration::from_secs(took.as_secs().max(1));
        row("seed", &self.plan.seed.0);
        row("operations", &self.plan.of_clients);
        row("operations of hogs, floods and crowds", &(self.plan.operations.len() - self.plan.of_clients as usize));
        row("servers, clients", &format_args!("{}, {}", self.plan.servers, self.plan.clients));
        row("lease", &humantime::format_duration(self.plan.lease));
        row("time", &humantime::format_duration(seconds));
        row("**faults**", &format_args!("**{}**", tally.faults.values().sum::<usize>()));
        for (kind, count) in &tally.faults {
            row(&kind.to_string(), count);
        }
        row("steps that no call passed", &tally.missed.len());
        row("paused servers that went on after a takeover", &tally.takeovers);
        let servers = std::time::Duration::from_secs(seconds.as_secs() * u64::from(self.plan.servers));
        let blackouts = std::time::Duration::from_secs(tally.blackouts.as_secs());
        row("time of the servers", &humantime::format_duration(servers));
        row("of this, without a database", &humantime::format_duration(blackouts));
        row("server starts, failed starts", &format_args!("{}, {}", tally.starts, tally.failed_starts));
        if let Some(interruptions) = self.trial.interruptions {
            row("interruptions of the move to partitions", &interruptions);
        }
        row("**calls**", &format_args!("**{}**", tally.calls));
        row("acknowledged", &tally.acknowledged_calls);
        row("of these, replays", &tally.replays);
        row("calls that shared a statement", &tally.shared);
        row("refused: the first call is in flight", &tally.in_flight);
        row("refused: the key is of another request", &tally.mismatches);
        row("refused: the outcome is unknown", &tally.unknown);
        row("refused: no store", &tally.store_unavailable);
        row("refused: too many calls", &tally.overloaded);
        row("other failures", &tally.other_failures);
        row("broken connections", &tally.broken_connections);
        row("no answer in time", &tally.timeouts);
        row("hung up by the client", &tally.hang_ups);
        row("**acknowledged operations**", &format_args!("**{}**", tally.acknowledged));
        row("given up by their clients", &tally.given_up);
        row("acknowledged by the last retry only", &tally.acknowledged_last);
        row("outcome still unknown at the last retry", &verdict.unknown);
        if self.trial.mode == Mode::Reserved {
            row("of these, acknowledged before", &verdict.refused_after_acknowledgement);
            if self.plan.on_lease_ended != LeasePolicy::Refuse {
                row("executed again, as the policy allows", &verdict.reruns);
            }
        }
        row("**unprotected runs**", &format_args!("**{}**", verdict.unprotected));
        row("of these, while the store could not be asked", &verdict.unprotected_with_need);
        row("duplicates that the policy allows", &verdict.unprotected_duplicates);
        let may_lose = self.plan.rules(self.trial.mode).may_lose != Losses::Nothing;
        for (promise, count) in
            verdict.lost().into_iter().filter(|(promise, _)| may_lose && promise.rests_upon_records())
        {
            row(&format!("**{promise}**, after failovers that lost records"), &format_args!("**{count}**"));
        }
        for (promise, count) in verdict.counts() {
            row(&format!("**{promise}** (must be 0)"), &format_args!("**{count}**"));
        }
        rows
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width = |of: fn(&(String, String)) -> usize| rows.iter().map(of).max().unwrap_or_default();
        let (names, values) = (width(|row| row.0.chars().count()), width(|row| row.1.chars().count()));
        writeln!(f, "## {}\n", self.title())?;
        writeln!(f, "| {:names$} | {:>values$} |", "", "")?;
        writeln!(f, "|{:-<width$}|{:->right$}:|", "", "", width = names + 2, right = values + 1)?;
        for (name, value) in &rows {
            writeln!(f, "| {name:names$} | {value:>values$} |")?;
        }
        let kept = if self.trial.verdict.violations.is_empty() {
            "All promises were kept."
        } else {
            "**PROMISES WERE BROKEN.**"
        };
        write!(f, "\n{kept}")
    }
}
