//! The targets of faults.

use std::sync::Arc;

use tcp_proxy::Proxy;

use crate::{
    database::Database,
    fleet::{Orders, Rotation},
    journal::Journal,
    operation::Operation,
    pace::Pace,
};

/// Everything that faults can affect.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) database: Arc<Database>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) operations: Arc<[Operation]>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) proxies: Vec<Arc<Proxy>>,
    pub(crate) rotation: Arc<Rotation>,
}
