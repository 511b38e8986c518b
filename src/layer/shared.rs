//! The state that the services of one layer share.

use std::{collections::HashMap, sync::Arc};

use prost_reflect::DescriptorPool;
use protobuf_canonical::Canonical;

use super::unprotected::UnprotectedKeys;
#[cfg(feature = "connect")]
use crate::connect::Translator;
use crate::{
    caller::{Caller, CallerResolver},
    engine::shared::state::Engine,
    grpc::{AcceptedEncodings, RequestLimits},
    policy::{Procedure, ScopePolicy},
    store::SessionSettings,
};

/// Returns the settings of the transactions of a caller's calls.
pub(super) type SettingsOfCaller = Box<dyn Fn(&Caller) -> SessionSettings + Send + Sync>;

pub(super) struct Shared {
    /// The procedures that take keys, by path.
    pub(super) procedures: HashMap<String, Arc<ProtectedProcedure>>,
    /// The operations that are no procedures of a service, by path.
    pub(super) operations: HashMap<String, Arc<Procedure>>,
    pub(super) descriptors: DescriptorPool,
    pub(super) unprotected_keys: Arc<UnprotectedKeys>,
    /// `None` without a store: all calls pass through.
    pub(super) engine: Option<Arc<Engine>>,
    pub(super) caller_resolver: Box<dyn CallerResolver>,
    pub(super) on_no_scope: ScopePolicy,
    /// `None`: the application has no settings of its own.
    pub(super) session_settings: Option<SettingsOfCaller>,
    pub(super) request_limits: RequestLimits,
    /// Translates calls in protocols other than gRPC, if the inner service supports them.
    #[cfg(feature = "connect")]
    pub(super) translator: Translator,
}

/// A procedure that takes keys, the encoder that hashes its requests, the encodings in which they may arrive, and the policy
/// for callers without a scope.
#[derive(Debug)]
pub(super) struct ProtectedProcedure {
    pub(super) procedure: Arc<Procedure>,
    pub(super) canonical: Canonical,
    pub(super) accepted: AcceptedEncodings,
    pub(super) on_no_scope: ScopePolicy,
}
