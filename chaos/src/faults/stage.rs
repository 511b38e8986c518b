//! The targets of faults.

use std::sync::Arc;

use tcp_proxy::Proxy;

use crate::{
    fleet::{Fleet, Orders, Rotation, Setting},
    journal::Journal,
    mover::Move,
    operation::Operation,
    pace::Pace,
    plan::Plan,
    topology::{Database, Way},
};

/// Everything that faults can affect.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// The proxy between PgBouncer and the database; `None` if there is no PgBouncer.
    pub(super) behind_bouncer: Option<Arc<Proxy>>,
    pub(super) database: Arc<Database>,
    pub(super) journal: Arc<Journal>,
    /// The move to partitions; `None` if there is none.
    pub(crate) moving: Option<Arc<Move>>,
    pub(super) operations: Arc<[Operation]>,
    pub(super) orders: Arc<Orders>,
    pub(super) pace: Arc<Pace>,
    pub(super) rotation: Arc<Rotation>,
    /// The way of each server to the database.
    pub(super) ways: Vec<Arc<Way>>,
}

impl Stage {
    /// A stage without a move to partitions.
    pub(crate) fn new(
        plan: &Plan,
        database: &Arc<Database>,
        setting: &Setting,
        pace: &Arc<Pace>,
        fleet: &Fleet,
    ) -> Self {
        Self {
            behind_bouncer: database.behind_bouncer().cloned(),
            database: Arc::clone(database),
            journal: Arc::clone(&setting.journal),
            moving: None,
            operations: Arc::clone(&plan.operations),
            orders: Arc::clone(&setting.orders),
            pace: Arc::clone(pace),
            rotation: Arc::clone(&setting.rotation),
            ways: fleet.ways().to_vec(),
        }
    }
}
