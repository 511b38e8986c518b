//! The builder of the layer, with all its settings.
//!
//! | module | holds the settings of |
//! |---|---|
//! | here | procedures, the store, callers |
//! | `limits` | sizes, times and limits of calls |
//! | `replays` | replays |
//! | `seal` | sealed records |
//! | `spans` | spans |
//! | `build` | none: it builds the layer |

mod build;
mod limits;
mod procedures;
mod replays;
#[cfg(feature = "seal")]
mod seal;
mod spans;

use std::{fmt, sync::Arc, time::Duration};

use super::{layer::IdempotencyLayer, shared::SettingsOfCaller, unprotected::Overrides};
use crate::{
    caller::{Caller, CallerFromExtensions, CallerResolver},
    descriptors::Descriptors,
    engine::{
        limits::{admission, backlog},
        replays::hooks::ReplayHooks,
        shared::reconcilers::Reconcilers,
    },
    grpc::{AcceptedEncodings, RequestLimits},
    policy::{
        self, Limits, Policies, ProcedureBuilder, Reconciler, ReplayedMetadata, ScopePolicy, UnprotectedKeyPolicy,
    },
    seal::Sealer,
    status::DynStatusResolver,
    store::{DynStore, SessionSettings, Store},
    telemetry::Spans,
};

impl IdempotencyLayer {
    /// Returns a builder for a layer of the services in these descriptors: an encoded `FileDescriptorSet`, whose files may be in
    /// proto2, proto3, or edition 2023 or 2024, or a [`DescriptorPool`](prost_reflect::DescriptorPool).
    pub fn builder(descriptors: impl Into<Descriptors>) -> IdempotencyLayerBuilder {
        IdempotencyLayerBuilder::new(descriptors.into())
    }
}

/// Builds an [`IdempotencyLayer`].
///
/// Default, with a store:
///
/// ```
/// use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
/// # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
///
/// let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build();
/// // These descriptors opt in no procedure, which is an error by default.
/// assert!(layer.is_err());
/// ```
///
/// Customised:
///
/// ```
/// use tonic_idempotency::{
///     IdempotencyLayer,
///     policy::{InProgressPolicy, Policies, ReplayedMetadata},
///     store::MemoryStore,
/// };
/// # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
///
/// let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
///     .allow_no_procedures()
///     .store(MemoryStore::new())
///     .policies(Policies { on_in_progress: InProgressPolicy::Wait, ..Policies::default() })
///     .replayed_metadata(ReplayedMetadata::custom().except(["x-request-cost"]))
///     .max_response_bytes(4 << 20)
///     .replay_cache_bytes(0)
///     .build();
/// assert!(layer.is_ok());
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct IdempotencyLayerBuilder {
    descriptors: Descriptors,
    procedures: Vec<ProcedureBuilder>,
    adjust: Box<dyn Fn(ProcedureBuilder) -> ProcedureBuilder + Send + Sync>,
    allow_no_procedures: bool,
    policies: Policies,
    reconcilers: Reconcilers,
    replay_hooks: ReplayHooks,
    store: Option<Arc<dyn DynStore>>,
    status_resolver: Option<Box<dyn DynStatusResolver>>,
    caller_resolver: Box<dyn CallerResolver>,
    on_no_scope: ScopePolicy,
    on_unprotected_key: UnprotectedKeyPolicy,
    on_unprotected_key_of: Overrides,
    session_settings: Option<SettingsOfCaller>,
    replayed_metadata: ReplayedMetadata,
    accepted: AcceptedEncodings,
    compress_replays_from: usize,
    request_limits: RequestLimits,
    max_response_bytes: usize,
    limits: Limits,
    max_unrecorded_bytes: usize,
    max_waiting_bytes: usize,
    replay_cache_bytes: usize,
    replay_cache_max_age: Duration,
    spans: Spans,
    sealer: Option<Sealer>,
    #[cfg(feature = "connect")]
    ignore_unknown_fields: bool,
}

impl IdempotencyLayerBuilder {
    pub(super) fn new(descriptors: Descriptors) -> Self {
        Self {
            descriptors,
            procedures: Vec::new(),
            adjust: Box::new(|procedure| procedure),
            allow_no_procedures: false,
            policies: Policies::default(),
            reconcilers: Reconcilers::default(),
            replay_hooks: ReplayHooks::default(),
            store: None,
            status_resolver: None,
            caller_resolver: Box::new(CallerFromExtensions),
            on_no_scope: ScopePolicy::default(),
            on_unprotected_key: UnprotectedKeyPolicy::default(),
            on_unprotected_key_of: Overrides::default(),
            session_settings: None,
            replayed_metadata: ReplayedMetadata::custom(),
            accepted: AcceptedEncodings::default(),
            compress_replays_from: 1 << 10,
            request_limits: RequestLimits::default(),
            max_response_bytes: 1 << 20,
            limits: Limits::default(),
            max_unrecorded_bytes: backlog::BYTES,
            max_waiting_bytes: admission::WAITING_BYTES,
            replay_cache_bytes: 8 << 20,
            replay_cache_max_age: Duration::from_secs(60),
            spans: Spans::default(),
            sealer: None,
            #[cfg(feature = "connect")]
            ignore_unknown_fields: false,
        }
    }

    /// Sets the store of the records. Defaults to none: all calls pass through unchanged.
    ///
    /// Check a `PostgresStore` with `PostgresStore::verify` first: it says what is wrong with the role, row-level
    /// security, the grants and the functions of its database.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Opts in a procedure in code, or overrides settings of its proto option; or declares an [operation](crate::policy::Procedure::operation).
    pub fn procedure(mut self, procedure: ProcedureBuilder) -> Self {
        self.procedures.push(procedure);
        self
    }

    /// Sets a function that changes the configuration of each procedure, after its option and code. Only for tests.
    #[doc(hidden)]
    pub fn adjust_procedures(
        mut self,
        adjust: impl Fn(ProcedureBuilder) -> ProcedureBuilder + Send + Sync + 'static,
    ) -> Self {
        self.adjust = Box::new(adjust);
        self
    }

    /// Adds the reconciler of the procedure with this path. The path's leading slash is optional. Required for
    /// procedures with the policy [`LeasePolicy::Reconcile`](crate::policy::LeasePolicy::Reconcile) or
    /// [`ForeignPolicy::Reconcile`](crate::policy::ForeignPolicy::Reconcile). Defaults to none.
    pub fn reconciler(mut self, procedure: impl Into<String>, reconciler: impl Reconciler) -> Self {
        self.reconcilers.insert(policy::path(procedure.into()), reconciler);
        self
    }

    /// Allows a layer without procedures. Defaults to an error, because the usual cause is a descriptor set that has
    /// lost its options.
    pub fn allow_no_procedures(mut self) -> Self {
        self.allow_no_procedures = true;
        self
    }

    /// Sets the default policies of procedures. Defaults to [`Policies::default`].
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Sets how the layer finds the authenticated caller: the user, and the scope if there are scopes. Defaults to
    /// [`CallerFromExtensions`].
    pub fn caller_resolver(mut self, caller: impl CallerResolver) -> Self {
        self.caller_resolver = Box::new(caller);
        self
    }

    /// Sets the policy for calls with a key whose caller has no scope. A server with tenants should refuse them: without a
    /// scope, a key belongs only to the user. Defaults to [`ScopePolicy::Allow`]. A call without a user is subject to
    /// [`on_no_user`](Policies::on_no_user) instead.
    pub fn on_no_scope(mut self, policy: ScopePolicy) -> Self {
        self.on_no_scope = policy;
        self
    }

    /// Sets the policy for calls with a key to procedures that are not opted in. Defaults to
    /// [`UnprotectedKeyPolicy::PassThrough`]. The option `(idempotency.v1.service)` of a service and
    /// [`on_unprotected_key_of`](Self::on_unprotected_key_of) override it.
    ///
    /// It also applies to calls over gRPC to services that are not in the layer's descriptors, except gRPC's own, such as health
    /// and reflection: their calls always pass through. Without a store, all calls do.
    ///
    /// ```
    /// # use tonic_idempotency::{IdempotencyLayer, proto::FILE_DESCRIPTOR_SET};
    /// use tonic_idempotency::policy::UnprotectedKeyPolicy;
    ///
    /// let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
    ///     .on_unprotected_key(UnprotectedKeyPolicy::Refuse)
    ///     // This service takes keys without the layer.
    ///     .on_unprotected_key_of("billing.v1.Payments", UnprotectedKeyPolicy::PassThrough);
    /// # drop(builder);
    /// ```
    pub fn on_unprotected_key(mut self, policy: UnprotectedKeyPolicy) -> Self {
        self.on_unprotected_key = policy;
        self
    }

    /// Sets the policy for calls with a key to the procedure with this path, such as `/shop.v1.Shop/GetOrder`, or to all
    /// procedures of the service with this full name, such as `shop.v1.Shop`, that are not opted in. The policy of a
    /// procedure overrides the policy of its service. Defaults to the option of the service, or else to
    /// [`on_unprotected_key`](Self::on_unprotected_key).
    pub fn on_unprotected_key_of(
        mut self,
        procedure_or_service: impl Into<String>,
        policy: UnprotectedKeyPolicy,
    ) -> Self {
        self.on_unprotected_key_of.set(procedure_or_service.into(), policy);
        self
    }

    /// Sets a function that returns settings of PostgreSQL for the transactions of a caller's calls. Defaults to none.
    ///
    /// The settings apply to the handler of a transactional procedure, with and without a key, and to the look-up of a
    /// resource's status together with a claim. They take no round trip, and end with the transaction. The function is not
    /// called for calls without a user.
    ///
    /// ```
    /// # use tonic_idempotency::{Caller, IdempotencyLayer, proto::FILE_DESCRIPTOR_SET};
    /// use tonic_idempotency::store::SessionSettings;
    ///
    /// let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).session_settings(|caller: &Caller| match &caller.scope {
    ///     Some(tenant) => SessionSettings::new().set("app.tenant_id", tenant.to_text()),
    ///     None => SessionSettings::new(),
    /// });
    /// # drop(builder);
    /// ```
    pub fn session_settings(mut self, settings: impl Fn(&Caller) -> SessionSettings + Send + Sync + 'static) -> Self {
        self.session_settings = Some(Box::new(settings));
        self
    }

    /// Sets whether the layer ignores unknown fields in JSON requests with a key, around a service of `connectrpc`: see
    /// [`ConnectLayer::ignore_unknown_fields`](crate::connect::ConnectLayer::ignore_unknown_fields). Defaults to
    /// `false`: such requests are refused.
    #[cfg(feature = "connect")]
    pub fn ignore_unknown_fields(mut self, ignore: bool) -> Self {
        self.ignore_unknown_fields = ignore;
        self
    }
}

impl fmt::Debug for IdempotencyLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayerBuilder")
            .field("procedures", &self.procedures)
            .field("policies", &self.policies)
            .field("store", &self.store.is_some())
            .finish_non_exhaustive()
    }
}
