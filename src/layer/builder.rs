//! The builder of the layer, with all its settings.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use super::{
    layer::IdempotencyLayer,
    parts::check_parts,
    shared::{Protected, RequestLimits, SettingsOfCaller, Shared},
    unprotected::{Overrides, UnprotectedKeys},
};
#[cfg(feature = "connect")]
use crate::connect::{Settings, Translator};
use crate::{
    build_error::BuildError,
    caller::{Caller, CallerFromExtensions, CallerResolver},
    descriptors::Descriptors,
    engine::{
        admission::{Admission, Limits},
        backlog::Backlog,
        reconcilers::Reconcilers,
        replay_cache::ReplayCache,
        replay_hooks::ReplayHooks,
        single_flight::SingleFlight,
        state::Engine,
        tracker::CallTracker,
    },
    grpc::{AcceptedEncodings, CompressionEncoding},
    policy::{
        self, Policies, ProcedureBuilder, ProcedureError, Rebuilder, Reconciler, ReplayAuthorizer, ReplayedMetadata,
        ScopePolicy, StorePolicy, UnprotectedKeyPolicy, read_options, resolve,
    },
    status::{DynStatusResolver, StatusResolver},
    store::{DynStore, SessionSettings, Store},
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
    degrade_gracefully: bool,
    reconcilers: Reconcilers,
    replay_hooks: ReplayHooks,
    store: Option<Arc<dyn DynStore>>,
    status_resolver: Option<Box<dyn DynStatusResolver>>,
    status_timeout: Duration,
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
    max_unrecorded: usize,
    max_unrecorded_bytes: usize,
    replay_cache_bytes: usize,
    replay_cache_max_age: Duration,
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
            degrade_gracefully: false,
            reconcilers: Reconcilers::default(),
            replay_hooks: ReplayHooks::default(),
            store: None,
            status_resolver: None,
            status_timeout: Duration::from_millis(250),
            caller_resolver: Box::new(CallerFromExtensions),
            on_no_scope: ScopePolicy::default(),
            on_unprotected_key: UnprotectedKeyPolicy::default(),
            on_unprotected_key_of: Overrides::default(),
            session_settings: None,
            replayed_metadata: ReplayedMetadata::custom(),
            accepted: AcceptedEncodings::default(),
            compress_replays_from: 1 << 10,
            request_limits: RequestLimits { bytes: 4 << 20, time: Duration::from_secs(30) },
            max_response_bytes: 1 << 20,
            limits: Limits::default(),
            max_unrecorded: 10_000,
            max_unrecorded_bytes: 64 << 20,
            replay_cache_bytes: 8 << 20,
            replay_cache_max_age: Duration::from_secs(60),
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

    /// Opts in a procedure in code. Replaces the proto option of the same procedure.
    pub fn procedure(mut self, procedure: ProcedureBuilder) -> Self {
        self.procedures.push(procedure);
        self
    }

    /// Sets a function that changes the configuration of each procedure, from its proto option or from code, for
    /// example for an operator's switch. Defaults to no changes.
    ///
    /// ```
    /// # use tonic_idempotency::{IdempotencyLayer, policy::Mode, proto::FILE_DESCRIPTOR_SET};
    /// let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
    ///     .adjust_procedures(|procedure| procedure.mode(Mode::Reserved));
    /// # drop(builder);
    /// ```
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

    /// Sets who decides whether a caller gets a replay. Defaults to nobody: the replay is of a call that the same user made
    /// in the same scope.
    ///
    /// An authorizer [of the procedure](Self::authorize_replay_of) is asked instead of this one.
    pub fn authorize_replay(mut self, authorizer: impl ReplayAuthorizer) -> Self {
        self.replay_hooks.authorize_all(authorizer);
        self
    }

    /// Sets who decides whether a caller gets a replay of the procedure with this path. The path's leading slash is
    /// optional. Defaults to the authorizer [of the layer](Self::authorize_replay).
    pub fn authorize_replay_of(mut self, procedure: impl Into<String>, authorizer: impl ReplayAuthorizer) -> Self {
        self.replay_hooks.authorize_of(policy::path(procedure.into()), authorizer);
        self
    }

    /// Makes the replays of the procedure with this path from today's state, in place of copies of the first response, which
    /// is not stored. The path's leading slash is optional. The procedure has to create a resource
    /// ([`ProcedureBuilder::creates`]). Defaults to copies.
    ///
    /// If the response of the first call has no id of a resource, a retry is refused with
    /// `IDEMPOTENCY_RESPONSE_NOT_STORED`.
    pub fn rebuild(mut self, procedure: impl Into<String>, rebuilder: impl Rebuilder) -> Self {
        self.replay_hooks.rebuild_of(policy::path(procedure.into()), rebuilder);
        self
    }

    /// Sets the time that an authorizer or a rebuilder may take for one replay. After that the call is refused with
    /// `UNAVAILABLE`, and an error in the log. Defaults to 5 seconds.
    pub fn replay_hook_timeout(mut self, timeout: Duration) -> Self {
        self.replay_hooks.set_timeout(timeout);
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

    /// Runs a reserved call unprotected, with a warning, while the store cannot be asked, as the Go interceptor does.
    /// Defaults to refusing it. A call that runs unprotected has no reservation and leaves no record, so that a retry runs
    /// it again.
    ///
    /// Sets the default of [`on_store_unavailable`](Policies::on_store_unavailable) to
    /// [`StorePolicy::Proceed`](crate::policy::StorePolicy::Proceed), whatever [`policies`](Self::policies) says, and
    /// nothing else. A procedure that sets the policy itself keeps it.
    ///
    /// ```
    /// # use tonic_idempotency::{IdempotencyLayer, proto::FILE_DESCRIPTOR_SET, store::MemoryStore};
    /// let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).degrade_gracefully();
    /// # drop(builder);
    /// ```
    pub fn degrade_gracefully(mut self) -> Self {
        self.degrade_gracefully = true;
        self
    }

    /// Sets how the layer finds the authenticated caller: the user, and the scope if there are scopes. Defaults to
    /// [`CallerFromExtensions`].
    pub fn caller_resolver(mut self, caller: impl CallerResolver) -> Self {
        self.caller_resolver = Box::new(caller);
        self
    }

    /// Sets the policy for calls with a key whose caller has no scope. A server with tenants should refuse them: without a
    /// scope, a key belongs to the user alone. Defaults to [`ScopePolicy::Allow`]. A call without a user is subject to
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
    /// procedures of the service with this full name, such as `shop.v1.Shop`, that are not opted in. That of a procedure
    /// overrides that of its service. Defaults to the option of the service, or else to
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
    /// The settings are there for the handler of a transactional procedure, with and without a key, and for the look-up of
    /// a resource's status together with a claim. They take no round trip, and end with the transaction. The function is not
    /// asked for a call without a user.
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

    /// Sets how the layer finds out the status of created resources. Defaults to the status that the store's claim
    /// returns, if its resource types are [tracked](crate::store::ResourceType::tracked).
    pub fn status_resolver(mut self, resolver: impl StatusResolver) -> Self {
        self.status_resolver = Some(Box::new(resolver));
        self
    }

    /// Sets the time that the [status resolver](Self::status_resolver) may take for one replay. After that the replay
    /// reports `processing`, with a warning in the log. Defaults to 250 milliseconds.
    pub fn status_timeout(mut self, timeout: Duration) -> Self {
        self.status_timeout = timeout;
        self
    }

    /// Accepts requests with a key that are compressed with this encoding. Call it for each encoding that the service
    /// accepts, as on the service itself. Any other is refused with `UNIMPLEMENTED`, as tonic does it, and never
    /// decompressed. Defaults to none, like tonic.
    ///
    /// The service behind the layer gets the request uncompressed. A message of more than 1 MiB may be at most 128
    /// times as large as it is compressed; otherwise it is refused with `RESOURCE_EXHAUSTED`. Calls over Connect and
    /// gRPC-Web that the layer translates are decompressed before, and do not depend on this setting.
    ///
    /// ```
    /// # #[cfg(feature = "gzip")] {
    /// # use tonic_idempotency::{IdempotencyLayer, proto::FILE_DESCRIPTOR_SET};
    /// use tonic_idempotency::layer::CompressionEncoding;
    ///
    /// let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).accept_compressed(CompressionEncoding::Gzip);
    /// # drop(builder);
    /// # }
    /// ```
    pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
        self.accepted.add(encoding);
        self
    }

    /// Sets the maximum size of the request message of a call with a key, in bytes, both compressed and decompressed. A
    /// larger request is refused with `RESOURCE_EXHAUSTED`. Defaults to 4 MiB, like tonic's own limit, which has to be
    /// raised together with this one. (A message compressed with zstd may require a window of at most 8 MiB, regardless
    /// of this limit.)
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.request_limits.bytes = bytes;
        self
    }

    /// Sets the time in which the request message of a call has to arrive, from the moment at which its head has: of a call
    /// with a key, and of a call without one to a procedure that is transactional or has a
    /// [key field](crate::policy::ProcedureBuilder::key_field). A slower call is refused with
    /// `DEADLINE_EXCEEDED`, `IDEMPOTENCY_REQUEST_TIMEOUT`. Until its message is there, it holds neither its key nor a
    /// connection to the store, but it counts as [in flight](Self::max_in_flight). Over HTTP/1 the time also bounds how
    /// long the body of a refused call is read. Defaults to 30 seconds.
    pub fn request_body_timeout(mut self, timeout: Duration) -> Self {
        self.request_limits.time = timeout;
        self
    }

    /// Selects the handler's response metadata that replays contain. Defaults to [`ReplayedMetadata::custom`].
    pub fn replayed_metadata(mut self, metadata: ReplayedMetadata) -> Self {
        self.replayed_metadata = metadata;
        self
    }

    /// Sets the minimum size, in bytes of the message, for compressing a replay; `usize::MAX` for never. Defaults to 1
    /// KiB.
    ///
    /// The encoding is the first one that the caller accepts (`grpc-accept-encoding`) and whose feature is enabled
    /// (`gzip`, `zstd`, `deflate`). A message that would not shrink stays uncompressed. This is independent of the
    /// first caller, whose response is compressed by the handler's own server.
    pub fn compress_replays_from(mut self, bytes: usize) -> Self {
        self.compress_replays_from = bytes;
        self
    }

    /// Sets the maximum size of a stored response, in bytes of its message and metadata together. If the response is
    /// larger, the first caller gets it, and a retry gets `IDEMPOTENCY_RESPONSE_NOT_STORED`. Defaults to 1 MiB.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets the maximum number of calls in flight, of all users together, at least 1. Defaults to 1,024.
    ///
    /// In flight is a call with a key, or without one to a transactional procedure, from the arrival of its head until its
    /// outcome is settled. If its procedure has a [key field](crate::policy::ProcedureBuilder::key_field), a call counts until its
    /// message has been read in any case. It is so even if its client has disconnected: the call goes on, and no limit of the server or of
    /// HTTP/2 counts it any more. A [waiting](Self::max_waiting) call is not in flight, and neither is an outcome that is
    /// still recorded after the caller has its response. Further calls are refused with `UNAVAILABLE`,
    /// `IDEMPOTENCY_OVERLOADED`, retries and replays among them, before their messages are read.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.limits.in_flight = calls.max(1);
        self
    }

    /// Sets the maximum number of calls [in flight](Self::max_in_flight) of one user, at least 1. A user counts in each scope
    /// as a user of its own. Calls without a user count as those of one user. Further calls are refused with `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED`. Defaults to 128.
    pub fn max_in_flight_per_user(mut self, calls: usize) -> Self {
        self.limits.in_flight_per_user = calls.max(1);
        self
    }

    /// Sets the maximum number of outcomes that wait to be recorded because the store did not take them at once. While as
    /// many wait (at least one), no more keys are claimed: reserved calls are refused with `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED`. Of the
    /// outcomes of calls whose claim was not answered, which may not hold their keys, half as many wait; further ones are
    /// given up, with an error in the log. Defaults to 10,000.
    pub fn max_unrecorded(mut self, outcomes: usize) -> Self {
        self.max_unrecorded = outcomes;
        self
    }

    /// Sets the maximum size of the responses in the outcomes that wait to be recorded, in bytes. A response beyond it is
    /// not stored: a retry gets `IDEMPOTENCY_RESPONSE_NOT_STORED`, and its handler does not run again. Defaults to 64 MiB.
    pub fn max_unrecorded_bytes(mut self, bytes: usize) -> Self {
        self.max_unrecorded_bytes = bytes;
        self
    }

    /// Sets the maximum number of calls that wait for a running call with their key, over all procedures with
    /// [`InProgressPolicy::Wait`](crate::policy::InProgressPolicy::Wait) and all users; 0 for none. Further calls are
    /// refused with `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED`. A waiting call holds its request in memory, but no connection.
    /// Defaults to 4,096.
    pub fn max_waiting(mut self, calls: usize) -> Self {
        self.limits.waiting = calls;
        self
    }

    /// Sets the maximum number of [waiting](Self::max_waiting) calls of one user; 0 for none. Further calls are refused
    /// with `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED`. Defaults to 256.
    pub fn max_waiting_per_user(mut self, calls: usize) -> Self {
        self.limits.waiting_per_user = calls;
        self
    }

    /// Sets the maximum size of the request messages of all [waiting](Self::max_waiting) calls together, in bytes,
    /// decompressed. A call whose message would exceed it is refused with `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED`. Defaults
    /// to 64 MiB.
    pub fn max_waiting_bytes(mut self, bytes: usize) -> Self {
        self.limits.waiting_bytes = bytes;
        self
    }

    /// Sets the size of the replay cache, in bytes of memory; 0 turns it off. Defaults to 8 MiB.
    ///
    /// The layer caches a replay from the store if the replay does not normally change while its record lives: its
    /// status is `completed` or `failed`, or it is a final error ([`FinalErrors`](crate::policy::FinalErrors)). From
    /// then on the same call (user, scope, key, procedure and request) gets it without a round trip, even if the store is
    /// unavailable, until the record expires or [`replay_cache_max_age`](Self::replay_cache_max_age) has passed.
    ///
    /// The size counts messages, metadata and bookkeeping. It is an estimate, usually too high. Rarely used replays are
    /// evicted. A replay larger than a sixteenth of the cache is not cached.
    pub fn replay_cache_bytes(mut self, bytes: usize) -> Self {
        self.replay_cache_bytes = bytes;
        self
    }

    /// Sets how long the layer replays from its cache before it asks the store again; zero for never. A replay is never
    /// cached for longer than its record lives. Defaults to 1 minute.
    ///
    /// Within this time the layer can miss two kinds of changes: a record that was changed or deleted by hand, and a
    /// final status that is no longer final, because a failed job was restarted or the resource got newer work.
    pub fn replay_cache_max_age(mut self, max_age: Duration) -> Self {
        self.replay_cache_max_age = max_age;
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

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the descriptors are invalid or in an edition that is not supported, no procedure is opted in, or the configuration of a procedure or
    /// of the replayed metadata is invalid.
    pub fn build(mut self) -> Result<IdempotencyLayer, BuildError> {
        if self.degrade_gracefully {
            self.policies.on_store_unavailable = StorePolicy::Proceed;
        }
        let pool = self.descriptors.pool()?;
        let metadata_filter = self.replayed_metadata.resolve()?;
        let described = read_options(&pool)?.into_iter().chain(self.procedures);
        // Configuration in code comes later, and replaces the options.
        let described: HashMap<_, _> = described.map(|procedure| (procedure.path().to_owned(), procedure)).collect();
        let mut procedures = HashMap::with_capacity(described.len());
        for (path, described) in described {
            let procedure = resolve((self.adjust)(described), &pool, &self.policies)?;
            let has_status_resolver = self.status_resolver.is_some();
            let procedure = check_parts(procedure, self.store.as_deref(), has_status_resolver, &self.reconcilers)?;
            if self.replay_hooks.rebuilds(&path) && procedure.creates().is_none() {
                return Err(ProcedureError::NothingToRebuild { procedure: path }.into());
            }
            let canonical = procedure.canonical();
            let (procedure, accepted) = (Arc::new(procedure), self.accepted.clone());
            let protected = Protected { procedure, canonical, accepted, on_no_scope: self.on_no_scope };
            procedures.insert(path, Arc::new(protected));
        }
        if let Some((path, setting)) = self.replay_hooks.paths().find(|(path, _)| !procedures.contains_key(*path)) {
            return Err(ProcedureError::NotOptedIn { procedure: path.to_owned(), setting }.into());
        }
        if procedures.is_empty() && !self.allow_no_procedures {
            return Err(BuildError::NoProcedures);
        }
        let is_opted_in = |path: &str| procedures.contains_key(path);
        let (overrides, default) = (self.on_unprotected_key_of, self.on_unprotected_key);
        let unprotected_keys = Arc::new(UnprotectedKeys::resolve(&pool, is_opted_in, overrides, default)?);

        let engine = self.store.map(|store| {
            Arc::new(Engine {
                store,
                status_resolver: self.status_resolver,
                status_timeout: self.status_timeout,
                reconcilers: self.reconcilers,
                replay_hooks: self.replay_hooks,
                metadata_filter,
                compress_replays_from: self.compress_replays_from,
                max_response_bytes: self.max_response_bytes,
                admission: Admission::new(self.limits),
                single_flight: Arc::new(SingleFlight::default()),
                replay_cache: ReplayCache::new(self.replay_cache_bytes, self.replay_cache_max_age),
                backlog: Backlog::new(self.max_unrecorded, self.max_unrecorded_bytes),
                tracker: CallTracker::default(),
            })
        });
        #[cfg(feature = "connect")]
        let translator = {
            let settings = Settings {
                ignore_unknown_fields: self.ignore_unknown_fields,
                max_message_bytes: self.request_limits.bytes,
                request_body_timeout: self.request_limits.time,
                ..Settings::default()
            };
            let keys = Arc::clone(&unprotected_keys);
            Translator::new(&pool, settings)
                .refusing_streams(move |path| keys.refuse(&policy::path(path.to_owned())).into())
        };
        let shared = Shared {
            procedures,
            unprotected_keys,
            engine,
            caller_resolver: self.caller_resolver,
            session_settings: self.session_settings,
            request_limits: self.request_limits,
            #[cfg(feature = "connect")]
            translator,
        };
        Ok(IdempotencyLayer { shared: Arc::new(shared) })
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
