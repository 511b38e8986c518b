//! The targets of faults.

use std::sync::Arc;

use tcp_proxy::Proxy;

use crate::{
    fleet::{Orders, Rotation},
    journal::Journal,
    mode::Mode,
    mover::Move,
    operation::Operation,
    pace::Pace,
    topology::{Database, Way},
};

/// Everything that faults can affect.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// The proxy between PgBouncer and the database; `None` if there is no PgBouncer.
    pub(crate) behind_bouncer: Option<Arc<Proxy>>,
    pub(crate) database: Arc<Database>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) mode: Mode,
    /// The move to partitions; `None` if there is none.
    pub(crate) moving: Option<Arc<Move>>,
    pub(crate) operations: Arc<[Operation]>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) rotation: Arc<Rotation>,
    /// The way of each server to the database.
    pub(crate) ways: Vec<Arc<Way>>,
}
