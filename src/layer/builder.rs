//! Builds a layer.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use protobuf_canonical::Canonical;

use super::{
    layer::IdempotencyLayer,
    shared::{Protected, Shared},
};
#[cfg(feature = "connect")]
use crate::connect::{Settings, Translator};
use crate::{
    build_error::BuildError,
    descriptors::Descriptors,
    engine::{
        reconcilers::Reconcilers, replay_cache::ReplayCache, single_flight::SingleFlight, state::Engine,
        tracker::CallTracker,
    },
    policy::{
        self, LeasePolicy, Mode, Policies, Procedure, ProcedureBuilder, ProcedureError, Reconciler, ReplayedMetadata,
        read_options, resolve,
    },
    status::{DynStatusResolver, StatusResolver},
    store::{DynStore, Store},
    user::{UserFromExtensions, UserResolver},
};

impl IdempotencyLayer {
    /// Builds a layer for the services in these descriptors: an encoded `FileDescriptorSet` or a
    /// [`DescriptorPool`](prost_reflect::DescriptorPool).
    pub fn builder(descriptors: impl Into<Descriptors>) -> IdempotencyLayerBuilder {
        IdempotencyLayerBuilder::new(descriptors.into())
    }
}

/// Builds an [`IdempotencyLayer`].
#[must_use = "a builder does nothing until `build`"]
pub struct IdempotencyLayerBuilder {
    descriptors: Descriptors,
    procedures: Vec<ProcedureBuilder>,
    adjust: Box<dyn Fn(ProcedureBuilder) -> ProcedureBuilder + Send + Sync>,
    allow_no_procedures: bool,
    policies: Policies,
    reconcilers: Reconcilers,
    store: Option<Arc<dyn DynStore>>,
    status_resolver: Option<Box<dyn DynStatusResolver>>,
    user_resolver: Box<dyn UserResolver>,
    replayed_metadata: ReplayedMetadata,
    compress_replays_from: usize,
    max_request_bytes: usize,
    max_response_bytes: usize,
    max_waiting: usize,
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
            reconcilers: Reconcilers::default(),
            store: None,
            status_resolver: None,
            user_resolver: Box::new(UserFromExtensions),
            replayed_metadata: ReplayedMetadata::custom(),
            compress_replays_from: 1 << 10,
            max_request_bytes: 4 << 20,
            max_response_bytes: 1 << 20,
            max_waiting: 4096,
            replay_cache_bytes: 8 << 20,
            replay_cache_max_age: Duration::from_secs(60),
            #[cfg(feature = "connect")]
            ignore_unknown_fields: false,
        }
    }

    /// Where the records live. Defaults to nowhere: calls pass through untouched.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Opts a procedure in, in code. Wins over the proto option of the same procedure.
    pub fn procedure(mut self, procedure: ProcedureBuilder) -> Self {
        self.procedures.push(procedure);
        self
    }

    /// Changes what procedures say of themselves, in their proto options or in code: for an operator's switch, say. Defaults to
    /// leaving them alone.
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

    /// Finds out how a call of this procedure ended that did not say so; the path's leading slash is optional. Needed by
    /// procedures with the policy [`LeasePolicy::Reconcile`].
    pub fn reconciler(mut self, procedure: impl Into<String>, reconciler: impl Reconciler) -> Self {
        self.reconcilers.insert(policy::path(procedure.into()), reconciler);
        self
    }

    /// Builds a layer for which no procedure is opted in. Defaults to refusing that: it is mostly a descriptor set that lost
    /// its options on the way.
    pub fn allow_no_procedures(mut self) -> Self {
        self.allow_no_procedures = true;
        self
    }

    /// What procedures do that do not say otherwise. Defaults to [`Policies::default`].
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Finds the authenticated user. Defaults to [`UserFromExtensions`].
    pub fn user_resolver(mut self, user: impl UserResolver) -> Self {
        self.user_resolver = Box::new(user);
        self
    }

    /// Finds out the status of created resources. Defaults to what the store's claim brings along.
    pub fn status_resolver(mut self, resolver: impl StatusResolver) -> Self {
        self.status_resolver = Some(Box::new(resolver));
        self
    }

    /// The largest request message with a key, in bytes, compressed or not; above it the call is refused with
    /// `RESOURCE_EXHAUSTED`. Defaults to 4 MiB, as tonic's own limit, which has to be raised along with this one. (A message in
    /// zstd may ask for a window of at most 8 MiB, whatever the limit.)
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Which of the handler's response metadata a replay has. Defaults to [`ReplayedMetadata::custom`].
    pub fn replayed_metadata(mut self, metadata: ReplayedMetadata) -> Self {
        self.replayed_metadata = metadata;
        self
    }

    /// The size of a message, in bytes, from which on a replay is compressed: in the first of the encodings that the caller
    /// accepts (`grpc-accept-encoding`) whose feature is enabled (`gzip`, `zstd`, `deflate`), if that makes it smaller. What the
    /// first caller accepted does not matter, nor what it got: its response is for the handler's own server to compress.
    /// `usize::MAX` for never. Defaults to 1 KiB.
    pub fn compress_replays_from(mut self, bytes: usize) -> Self {
        self.compress_replays_from = bytes;
        self
    }

    /// The largest response that is kept, in bytes of its message and its metadata together; above it the first caller gets the
    /// response, and a retry `IDEMPOTENCY_RESPONSE_NOT_STORED`. Defaults to 1 MiB.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// How many calls wait at most for another that holds their key, of all procedures with
    /// [`InProgressPolicy::Wait`](crate::InProgressPolicy::Wait) together; more are refused with `ABORTED`,
    /// `IDEMPOTENCY_IN_PROGRESS`. A waiting call takes memory for its request, and no connection. Defaults to 4,096.
    pub fn max_waiting(mut self, calls: usize) -> Self {
        self.max_waiting = calls;
        self
    }

    /// How many bytes of memory the layer may take to give replays without asking the store; 0 for none. Defaults to 8 MiB.
    ///
    /// A replay that will not change while its record lives is kept when the store has answered it: one whose status is
    /// `completed` or `failed`, or of a final error ([`FinalErrors`](crate::FinalErrors)). From then on the same call (user, key,
    /// procedure and request) gets it without a round trip, whether the store is away or not, until the record expires or
    /// [`replay_cache_max_age`](Self::replay_cache_max_age) has passed. The bytes are those of messages, metadata and bookkeeping,
    /// estimated rather too high; what is asked for seldom makes room, and a replay that would take more than a sixteenth of
    /// them is not kept.
    pub fn replay_cache_bytes(mut self, bytes: usize) -> Self {
        self.replay_cache_bytes = bytes;
        self
    }

    /// For how long the layer believes the store's answer when it gives a replay from memory; none is given for longer than
    /// its record lives, either. Zero for never. Defaults to a minute.
    ///
    /// For so long at most it overlooks what the store says no other way: a record that somebody has changed or deleted by hand,
    /// and a status that was final and is not any more, because a failed job was started again or the resource got newer work.
    pub fn replay_cache_max_age(mut self, max_age: Duration) -> Self {
        self.replay_cache_max_age = max_age;
        self
    }

    /// For calls with a key over Connect in JSON, around a service of `connectrpc`'s own: as
    /// [`ConnectLayer::ignore_unknown_fields`](crate::connect::ConnectLayer::ignore_unknown_fields). Defaults to `false`: they are
    /// refused.
    #[cfg(feature = "connect")]
    pub fn ignore_unknown_fields(mut self, ignore: bool) -> Self {
        self.ignore_unknown_fields = ignore;
        self
    }

    /// The layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] where the descriptors cannot be read, opt nothing in, or a procedure or metadata is described that cannot
    /// be.
    pub fn build(self) -> Result<IdempotencyLayer, BuildError> {
        let pool = self.descriptors.pool()?;
        let metadata_filter = self.replayed_metadata.resolve()?;
        let described = read_options(&pool)?.into_iter().chain(self.procedures);
        // The later ones, which the code gave, win.
        let described: HashMap<_, _> = described.map(|procedure| (procedure.path().to_owned(), procedure)).collect();
        let mut procedures = HashMap::with_capacity(described.len());
        for (path, described) in described {
            let procedure = resolve((self.adjust)(described), &pool, &self.policies)?;
            check_parts(&procedure, self.store.as_deref(), &self.reconcilers)?;
            let canonical = Canonical::new(&procedure.method().input());
            procedures.insert(path, Arc::new(Protected { procedure: Arc::new(procedure), canonical }));
        }
        if procedures.is_empty() && !self.allow_no_procedures {
            return Err(BuildError::NoProcedures);
        }

        let engine = self.store.map(|store| {
            Arc::new(Engine {
                store,
                status_resolver: self.status_resolver,
                reconcilers: self.reconcilers,
                metadata_filter,
                compress_replays_from: self.compress_replays_from,
                max_response_bytes: self.max_response_bytes,
                single_flight: SingleFlight::new(self.max_waiting),
                replay_cache: ReplayCache::new(self.replay_cache_bytes, self.replay_cache_max_age),
                tracker: CallTracker::default(),
            })
        });
        #[cfg(feature = "connect")]
        let translator = {
            let settings = Settings {
                ignore_unknown_fields: self.ignore_unknown_fields,
                max_message_bytes: self.max_request_bytes,
                ..Settings::default()
            };
            Translator::new(&pool, settings)
        };
        let shared = Shared {
            procedures,
            engine,
            user_resolver: self.user_resolver,
            max_request_bytes: self.max_request_bytes,
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

/// Whether there is what the procedure's policies need. Without a store nothing is needed.
fn check_parts(
    procedure: &Procedure,
    store: Option<&dyn DynStore>,
    reconcilers: &Reconcilers,
) -> Result<(), ProcedureError> {
    let (path, policies) = (procedure.path(), procedure.policies());
    let Some(store) = store else { return Ok(()) };
    if let (Some(creates), Some(known)) = (procedure.creates(), store.resource_types())
        && known.get(&creates.resource_type).is_none()
    {
        return Err(ProcedureError::UnknownResourceType {
            procedure: path.to_owned(),
            resource_type: creates.resource_type.clone(),
            known: known.iter().map(|known| known.name().to_owned()).collect(),
        });
    }
    if policies.mode == Mode::Transactional && !store.has_transactions() {
        return Err(ProcedureError::NoTransactions { procedure: path.to_owned() });
    }
    if policies.on_lease_ended == LeasePolicy::Reconcile && !reconcilers.contains(path) {
        return Err(ProcedureError::NoReconciler { procedure: path.to_owned() });
    }
    Ok(())
}
