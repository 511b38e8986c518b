//! The table of a run's numbers.

use std::{fmt, time::Duration};

use super::MarkdownTable;
use crate::{auditor::Losses, choice::Topology, mode::Mode, named::name, plan::Plan, trial::Trial};

/// Explains the numbers in the tables.
pub(crate) const LEGEND: &str = "\
Every operation is tried once more on a new server, after all faults have ended and every lease is over: that is its
last retry. A fault is counted after it has happened. The rows that must be 0 count operations.

With `--on-store-unavailable proceed`, a call in reserved mode runs unprotected if the store could not be asked, and may make
a duplicate. The store could be asked if a witness, which asks the database all the time over the way of the same server, got
an answer, and the database was not being killed, nor its connections held for as long as the store's timeout.

With `--replication asynchronous`, a failover may lose what the primary has acknowledged and no standby has got; with
`--topology redis-cluster`, what a primary of Redis has. The rows 'after failovers that lost records' count operations, and break no
promise.";

/// One run as a Markdown table.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) trial: &'a Trial,
}

impl Table<'_> {
    fn title(&self) -> String {
        let args = &self.plan.args;
        let mode = match self.trial.mode {
            Mode::Transactional => "Transactional mode".to_owned(),
            Mode::Reserved => format!("Reserved mode, `{}` without a store", name(args.on_store_unavailable)),
        };
        let topology = match args.topology {
            Topology::Patroni => {
                format!(", Patroni with `{}`, {} replication", name(args.front), name(args.replication))
            }
            Topology::Pgbouncer => ", behind PgBouncer".to_owned(),
            Topology::RedisCluster => {
                format!(
                    ", records on a Redis Cluster, persistence `{}`, replicas {}",
                    name(args.persistence),
                    args.replicas
                )
            }
            Topology::Partitioned | Topology::Single => String::new(),
        };
        let serializable = if args.serializable { ", serializable" } else { "" };
        let sealed = if args.seal { ", sealed" } else { "" };
        let moved = if args.moving { "moved to " } else { "" };
        let partitions = args.partitions.map(|partitions| format!(", {moved}{partitions} partitions"));
        format!("{mode}{topology}{serializable}{sealed}{}", partitions.unwrap_or_default())
    }

    fn rows(&self) -> MarkdownTable {
        let mut table = MarkdownTable::default();
        let Self { plan, trial: Trial { tally, took, verdict, mode, interruptions, sealed, .. } } = self;
        let args = &plan.args;
        let seconds = |seconds| humantime::format_duration(Duration::from_secs(seconds));
        let took = took.as_secs().max(1);
        table.row("seed", plan.seed.0);
        table.row("operations", args.operations);
        table.row("servers, clients", format_args!("{}, {}", args.servers, args.clients));
        table.row("lease", humantime::format_duration(args.lease));
        table.row("time", seconds(took));
        table.strong("faults", tally.faults.values().sum::<usize>());
        for (kind, count) in &tally.faults {
            table.row(&kind.to_string(), count);
        }
        table.row("steps that no call passed", tally.missed.len());
        table.row("paused servers that went on after a takeover", tally.takeovers);
        table.row("time of the servers", seconds(took * u64::from(args.servers)));
        table.row("of this, without a database", seconds(tally.blackouts.as_secs()));
        table.row("server starts, failed starts", format_args!("{}, {}", tally.starts, tally.failed_starts));
        if let Some(interruptions) = interruptions {
            table.row("interruptions of the move to partitions", interruptions);
        }
        table.strong("calls", tally.calls);
        for (name, count) in &tally.answers {
            table.row(name, count);
        }
        table.row("runs of handlers", tally.runs);
        table.strong("acknowledged operations", tally.acknowledged);
        table.row("given up by their clients", tally.given_up);
        table.row("acknowledged by the last retry only", tally.acknowledged_last);
        table.row("outcome still unknown at the last retry", verdict.unknown);
        if *mode == Mode::Reserved {
            table.row("of these, acknowledged before", verdict.refused_after_acknowledgement);
        }
        if let Some(sealed) = sealed {
            table.row("sealed responses in the end", sealed);
        }
        table.strong("unprotected runs", verdict.unprotected);
        table.row("of these, while the store could not be asked", verdict.unprotected_with_need);
        table.row("duplicates that the policy allows", verdict.unprotected_duplicates);
        let may_lose = plan.rules(*mode).may_lose != Losses::Nothing;
        let lost = verdict.lost().into_iter().filter(|(promise, _)| may_lose && promise.rests_upon_records());
        for (promise, count) in lost {
            table.row(&format!("**{promise}**, after failovers that lost records"), format_args!("**{count}**"));
        }
        verdict.counts().into_iter().for_each(|(promise, count)| table.promise(promise, count));
        table
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().write(self.title(), self.trial.verdict.violations.is_empty(), f)
    }
}
