//! Everything that a server process is started with.

use std::{sync::Arc, time::Duration};

use super::{Orders, Rotation};
use crate::{journal::Journal, mode::Mode, plan::Plan};

/// Everything that a server process is started with.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The flags of the sample.
    pub(super) flags: Vec<String>,
    pub(super) lease: Duration,
    /// Whether its records are sealed.
    pub(super) seals: bool,
    pub(crate) journal: Arc<Journal>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) rotation: Arc<Rotation>,
}

impl Setting {
    pub(crate) fn new(plan: &Plan, mode: Mode, journal: &Arc<Journal>) -> Self {
        let (orders, rotation) = Default::default();
        let (lease, seals) = (plan.args.lease, plan.args.seal);
        Self { flags: plan.server(mode), lease, seals, journal: Arc::clone(journal), orders, rotation }
    }
}
