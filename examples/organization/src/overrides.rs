//! The settings that the command line overrides.

use std::time::Duration;

use tonic_idempotency::policy::{LeasePolicy, Mode, ProcedureBuilder, StorePolicy};

use crate::args::{Args, LeasePolicyArg, ModeArg, StorePolicyArg};

/// The procedure that has a reconciler.
pub(crate) const RECONCILED: &str = "/organization.v1.InviteService/InviteMember";

/// The settings that the command line overrides for every procedure.
#[derive(Clone, Copy, Debug)]
pub struct Overrides {
    handler_timeout: Option<Duration>,
    lease: Option<Duration>,
    mode: Option<Mode>,
    on_lease_ended: Option<LeasePolicy>,
    on_store_unavailable: Option<StorePolicy>,
}

impl Overrides {
    pub(crate) fn of(args: &Args) -> Self {
        Self {
            handler_timeout: args.handler_timeout,
            lease: args.lease,
            mode: args.mode.map(|mode| match mode {
                ModeArg::Reserved => Mode::Reserved,
                ModeArg::Transactional => Mode::Transactional,
            }),
            on_lease_ended: args.on_lease_ended.map(|policy| match policy {
                LeasePolicyArg::Reconcile => LeasePolicy::Reconcile,
                LeasePolicyArg::Refuse => LeasePolicy::Refuse,
                LeasePolicyArg::Rerun => LeasePolicy::Rerun,
            }),
            on_store_unavailable: args.on_store_unavailable.map(|policy| match policy {
                StorePolicyArg::Proceed => StorePolicy::Proceed,
                StorePolicyArg::Reject => StorePolicy::Reject,
            }),
        }
    }

    /// Returns a procedure with these settings.
    pub fn apply(self, mut procedure: ProcedureBuilder) -> ProcedureBuilder {
        if let Some(lease) = self.lease {
            procedure = procedure.lease(lease);
            if self.mode == Some(Mode::Transactional) {
                procedure = procedure.transaction_idle(lease);
            }
        }
        if let Some(timeout) = self.handler_timeout {
            procedure = procedure.handler_timeout(timeout);
        }
        if let Some(mode) = self.mode {
            procedure = procedure.mode(mode);
        }
        if let Some(policy) = self.on_store_unavailable {
            procedure = procedure.on_store_unavailable(policy);
        }
        match self.on_lease_ended {
            None => procedure,
            Some(LeasePolicy::Reconcile) if procedure.path() != RECONCILED => {
                procedure.on_lease_ended(LeasePolicy::Refuse)
            }
            Some(policy) => procedure.on_lease_ended(policy),
        }
    }
}
