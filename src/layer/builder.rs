use std::{collections::HashMap, error, fmt, sync::Arc, time::Duration};

use prost_reflect::{DescriptorError, DescriptorPool};

#[cfg(feature = "connect")]
use crate::connect::{Settings, Translator};
use crate::{
    IdempotencyLayer, LeasePolicy, Mode, Policies, Procedure, ProcedureBuilder, ProcedureError, Reconciler,
    ReplayedMetadata, StatusResolver, Store, UserFromExtensions, UserResolver,
    engine::{Engine, reconcile::Reconcilers, replay_cache::ReplayCache, single_flight::Flights, tracker::Running},
    layer::layer::{Protected, Shared},
    policy::{self, read_options, resolve},
    status::resolver::DynStatusResolver,
    store::DynStore,
};
use protobuf_canonical::Canonical;

/// The descriptors of the services: an encoded `FileDescriptorSet`, or a pool.
pub struct Descriptors(Result<DescriptorPool, DescriptorError>);

impl From<&[u8]> for Descriptors {
    fn from(encoded: &[u8]) -> Self {
        Self(DescriptorPool::decode(encoded))
    }
}

impl<const N: usize> From<&[u8; N]> for Descriptors {
    fn from(encoded: &[u8; N]) -> Self {
        encoded.as_slice().into()
    }
}

impl From<DescriptorPool> for Descriptors {
    fn from(pool: DescriptorPool) -> Self {
        Self(Ok(pool))
    }
}

impl Descriptors {
    pub(crate) fn pool(self) -> Result<DescriptorPool, BuildError> {
        self.0.map_err(BuildError::Descriptors)
    }
}

/// The names of the services alone: a pool's own `Debug` follows messages that contain themselves until the stack is
/// used up.
impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services =
            self.0.as_ref().map(|pool| pool.services().map(|it| it.full_name().to_owned()).collect::<Vec<_>>());
        f.debug_tuple("Descriptors").field(&services).finish()
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
    user: Box<dyn UserResolver>,
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
    pub(crate) fn new(descriptors: Descriptors) -> Self {
        Self {
            descriptors,
            procedures: Vec::new(),
            adjust: Box::new(|procedure| procedure),
            allow_no_procedures: false,
            policies: Policies::default(),
            reconcilers: Reconcilers::default(),
            store: None,
            status_resolver: None,
            user: Box::new(UserFromExtensions),
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
    /// # use tonic_idempotency::{IdempotencyLayer, Mode, proto::FILE_DESCRIPTOR_SET};
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
    pub fn user(mut self, user: impl UserResolver) -> Self {
        self.user = Box::new(user);
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
        let kept_metadata = self.replayed_metadata.resolve()?;
        let resource_types = self.store.as_ref().and_then(|store| store.resource_types());

        let described = read_options(&pool)?.into_iter().chain(self.procedures);
        // The later ones, which the code gave, win.
        let described: HashMap<_, _> = described.map(|procedure| (procedure.path().to_owned(), procedure)).collect();
        let mut procedures = HashMap::with_capacity(described.len());
        for (path, described) in described {
            let procedure = resolve((self.adjust)(described), &pool, &self.policies, resource_types)?;
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
                kept_metadata,
                compress_replays_from: self.compress_replays_from,
                max_response_bytes: self.max_response_bytes,
                flights: Flights::new(self.max_waiting),
                replays: ReplayCache::new(self.replay_cache_bytes, self.replay_cache_max_age),
                running: Running::default(),
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
            user: self.user,
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
    if policies.mode == Mode::Transactional && !store.has_transactions() {
        return Err(ProcedureError::NoTransactions { procedure: path.to_owned() });
    }
    if policies.on_lease_ended == LeasePolicy::Reconcile && !reconcilers.contains(path) {
        return Err(ProcedureError::NoReconciler { procedure: path.to_owned() });
    }
    Ok(())
}

/// A layer that cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The descriptors cannot be read.
    Descriptors(DescriptorError),
    /// What is to be replayed, or is not, has this name, which is none of metadata.
    MetadataName {
        /// The name.
        name: String,
    },
    /// What is to be replayed is never kept; see [`ReplayedMetadata`].
    MetadataNeverReplayed {
        /// The name.
        name: String,
    },
    /// No procedure is opted in.
    NoProcedures,
    /// A procedure is described that cannot be.
    Procedure(ProcedureError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors(_) => f.write_str("the descriptors cannot be read"),
            Self::MetadataName { name } => write!(f, "replayed_metadata: {name:?} is no name of metadata"),
            Self::MetadataNeverReplayed { name } => write!(
                f,
                "replayed_metadata: {name:?} is never kept: it belongs to the connection, the protocol or the first caller \
                 alone; take it out of ReplayedMetadata::only"
            ),
            Self::NoProcedures => f.write_str(
                "no procedure is opted in: give one the option (idempotency.v1.procedure) or describe it in code; if \
                 there is one, the descriptor set has lost its options, as a round trip through prost-types does: write \
                 it with protoc, or with protox::Compiler::encode_file_descriptor_set",
            ),
            Self::Procedure(error) => error.fmt(f),
        }
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Descriptors(error) => Some(error),
            Self::MetadataName { .. }
            | Self::MetadataNeverReplayed { .. }
            | Self::NoProcedures
            | Self::Procedure(_) => None,
        }
    }
}

impl From<ProcedureError> for BuildError {
    fn from(error: ProcedureError) -> Self {
        Self::Procedure(error)
    }
}
