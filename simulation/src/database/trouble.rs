//! Faults of the server, and how often they occur: [`Trouble`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::SqlError;
use crate::world::{Random, World};

/// The latency of statements, and the chances of errors, between 0 and 1. Each error is drawn for each statement, from a stream of its own.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Trouble {
    /// The least and the longest time before a statement takes effect. It holds no lock meanwhile.
    pub latency: [Duration; 2],
    /// The least and the longest time that a COMMIT waits, with its locks: for the disk, or for a synchronous standby.
    pub commit: [Duration; 2],
    /// The least and the longest time that a statement takes longer if it reads the status of what a call has created.
    pub status: [Duration; 2],
    /// The status cannot be read, which its statement survives.
    pub status_error: f64,
    /// 40P01, although no transaction waits for the other.
    pub deadlock: f64,
    /// 40001.
    pub serialization: f64,
    /// 57014.
    pub canceled: f64,
    /// 55P03.
    pub lock_not_available: f64,
    /// 53100.
    pub disk_full: f64,
    /// 53300, for each login.
    pub too_many_connections: f64,
    /// An error of class 08 or XX after the statement took effect.
    pub after_effect: f64,
    /// A pooler gives the transaction another session.
    pub pooler_changes: f64,
    /// A pooler loses the server's session: the transaction is rolled back, and the client's connection stays.
    pub pooler_drops: f64,
    /// The connection is cut when a statement is about to take effect, or when it just has.
    pub cut: f64,
    /// A pooler gives a session in which another client has left a transaction open, of any kind.
    pub left_open: f64,
    /// 0A000, of a prepared statement that would have other columns now.
    pub stale_plan: f64,
}

impl Trouble {
    /// None.
    pub const NONE: Self = Self {
        latency: [Duration::ZERO; 2],
        commit: [Duration::ZERO; 2],
        status: [Duration::ZERO; 2],
        status_error: 0.0,
        deadlock: 0.0,
        serialization: 0.0,
        canceled: 0.0,
        lock_not_available: 0.0,
        disk_full: 0.0,
        too_many_connections: 0.0,
        after_effect: 0.0,
        pooler_changes: 0.0,
        pooler_drops: 0.0,
        left_open: 0.0,
        stale_plan: 0.0,
        cut: 0.0,
    };

    /// Returns the trouble in which both happen.
    fn and(self, other: Self) -> Self {
        let longest = |a: [Duration; 2], b: [Duration; 2]| [a[0].max(b[0]), a[1].max(b[1])];
        Self {
            latency: longest(self.latency, other.latency),
            commit: longest(self.commit, other.commit),
            status: longest(self.status, other.status),
            status_error: self.status_error.max(other.status_error),
            deadlock: self.deadlock.max(other.deadlock),
            serialization: self.serialization.max(other.serialization),
            canceled: self.canceled.max(other.canceled),
            lock_not_available: self.lock_not_available.max(other.lock_not_available),
            disk_full: self.disk_full.max(other.disk_full),
            too_many_connections: self.too_many_connections.max(other.too_many_connections),
            after_effect: self.after_effect.max(other.after_effect),
            pooler_changes: self.pooler_changes.max(other.pooler_changes),
            pooler_drops: self.pooler_drops.max(other.pooler_drops),
            left_open: self.left_open.max(other.left_open),
            stale_plan: self.stale_plan.max(other.stale_plan),
            cut: self.cut.max(other.cut),
        }
    }
}

/// The faults that one statement meets.
#[derive(Debug, Default)]
pub(super) struct Fate {
    pub(super) latency: Duration,
    pub(super) commit: Duration,
    pub(super) status: Duration,
    pub(super) loses_status: bool,
    /// An error instead of the statement.
    pub(super) error: Option<SqlError>,
    /// An error after it.
    pub(super) after: Option<SqlError>,
    pub(super) changes_session: bool,
    pub(super) drops_session: bool,
    pub(super) left_open: Option<LeftOpen>,
    pub(super) cut: Option<Cut>,
}

/// A transaction that another client has left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOpen {
    /// It has run no query.
    Begun,
    Failed,
    HasRun,
}

/// The moment at which a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    BeforeEffect,
    AfterEffect,
}

/// An error, its chance, and its stream.
type Drawn = (SqlError, fn(&Trouble) -> f64, Random);

/// Draws what statements meet.
#[derive(Debug)]
pub(super) struct Draws {
    /// All that goes wrong now.
    troubles: Vec<Trouble>,
    trouble: Trouble,
    latency: Random,
    commit: Random,
    status: Random,
    errors: [Drawn; 6],
    logins: Random,
    after: Random,
    changes: Random,
    drops: Random,
    left_open: Random,
    cuts: Random,
}

impl Draws {
    pub(super) fn new(world: &World) -> Self {
        let stream = |of: &str| world.random(&format!("database {of}"));
        Self {
            troubles: Vec::new(),
            trouble: Trouble::NONE,
            latency: stream("latency"),
            commit: stream("commit"),
            status: stream("status"),
            errors: [
                (SqlError::DEADLOCK, |trouble| trouble.deadlock, stream("deadlock")),
                (SqlError::SERIALIZATION, |trouble| trouble.serialization, stream("serialization")),
                (SqlError::CANCELED, |trouble| trouble.canceled, stream("canceled")),
                (SqlError::LOCK_NOT_AVAILABLE, |trouble| trouble.lock_not_available, stream("lock not available")),
                (SqlError::DISK_FULL, |trouble| trouble.disk_full, stream("disk full")),
                (SqlError::STALE_PLAN, |trouble| trouble.stale_plan, stream("stale plan")),
            ],
            logins: stream("logins"),
            after: stream("after"),
            changes: stream("changes"),
            drops: stream("drops"),
            left_open: stream("left open"),
            cuts: stream("cuts"),
        }
    }

    pub(super) fn add(&mut self, trouble: Trouble) {
        self.troubles.push(trouble);
        self.trouble = self.trouble.and(trouble);
    }

    pub(super) fn remove(&mut self, trouble: Trouble) {
        if let Some(place) = self.troubles.iter().position(|added| *added == trouble) {
            self.troubles.remove(place);
        }
        self.trouble = self.troubles.iter().copied().fold(Trouble::NONE, Trouble::and);
    }

    pub(super) fn statement(&mut self) -> Fate {
        let trouble = &self.trouble;
        let duration = |random: &mut Random, [least, most]: [Duration; 2]| match most {
            Duration::ZERO => most,
            _ => random.duration(least..=most),
        };
        // Each is drawn, whichever counts.
        let mut error = None;
        for (failure, chance, random) in &mut self.errors {
            if random.chance(chance(trouble)) {
                error = Some(*failure);
            }
        }
        let after = self.after.chance(trouble.after_effect);
        let after = after.then(|| *self.after.one_of(&[SqlError::LOST_BY_POOLER, SqlError::INTERNAL]));
        let cut = self.cuts.chance(trouble.cut);
        let left_open = self.left_open.chance(trouble.left_open);
        let kinds = [LeftOpen::Begun, LeftOpen::Failed, LeftOpen::HasRun];
        Fate {
            latency: duration(&mut self.latency, trouble.latency),
            commit: duration(&mut self.commit, trouble.commit),
            status: duration(&mut self.status, trouble.status),
            loses_status: self.status.chance(trouble.status_error),
            error,
            after,
            changes_session: self.changes.chance(trouble.pooler_changes),
            drops_session: self.drops.chance(trouble.pooler_drops),
            left_open: left_open.then(|| *self.left_open.one_of(&kinds)),
            cut: cut.then(|| *self.cuts.one_of(&[Cut::BeforeEffect, Cut::AfterEffect])),
        }
    }

    pub(super) fn refuses_login(&mut self) -> bool {
        self.logins.chance(self.trouble.too_many_connections)
    }
}
